//! Remedies of limiters: for each stack with a setting, the commands as a block to copy.
//!
//! Words in capitals (IQN, DEV) are placeholders; numbers come from the measurement (`wanted`).

mod command;
mod concurrency;
mod hosts;
pub mod sysctl;
#[cfg(test)]
mod testing;
mod transfers;
mod transport;
mod wanted;

pub use self::command::Remedy;
use self::wanted::Wanted;
pub(crate) use self::wanted::more_connections;
use crate::facts::Facts;
use crate::limiter::Limiter;

/// Settings that relieve a limiter; empty where none does, as for a full line.
///
/// Also empty for limiters that only `farlun top` and `farlun stream` name: these see no requests, which the numbers come
/// from. [`Limiter::next_step`] names the change there.
pub fn remedies(limiter: Limiter, facts: &Facts) -> Vec<Remedy> {
    let wanted = Wanted::from_facts(facts);
    match limiter {
        Limiter::QueueDepth => concurrency::caller(wanted),
        Limiter::QueueLimit => concurrency::queue(wanted),
        Limiter::CommandWindow => concurrency::window(wanted),
        Limiter::Connections => concurrency::connections(wanted),
        Limiter::R2t => transfers::r2t(wanted),
        Limiter::BlockSize => transfers::block(wanted),
        Limiter::Nagle => transfers::nagle(),
        Limiter::SeparateStatus => transfers::status(),
        Limiter::SendBuffer => transport::send_buffer(wanted),
        Limiter::ReceiveWindow => transport::receive_window(wanted),
        Limiter::Loss => transport::loss(),
        Limiter::PathMtu => transport::path_mtu(),
        Limiter::DeviceQueue => transport::device_queue(),
        Limiter::CongestionWindow => transport::congestion_window(wanted),
        Limiter::Pacing => transport::pacing(),
        Limiter::SenderCpu | Limiter::ReceiverCpu => hosts::cpu(),
        Limiter::TargetQueue => match facts.outstanding.refused_at {
            Some(refused_at) => concurrency::refused(wanted, refused_at),
            None => hosts::target_queue(wanted),
        },
        Limiter::StoreLatency => hosts::store_latency(facts.is_write),
        Limiter::StoreBandwidth => hosts::store_bandwidth(facts.is_write),
        Limiter::Path => hosts::unseen(),
        Limiter::LinkRate | Limiter::RoundTrip => Vec::new(),
        Limiter::Idle
        | Limiter::Receiving
        | Limiter::AppLimited
        | Limiter::TcpMemory
        | Limiter::WindowScale
        | Limiter::SenderHost
        | Limiter::ReceiverApplication => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::command::UNMOUNT;
    use super::testing::facts;
    use super::*;
    use crate::limiter::{Instrument, LIMITERS};

    #[test]
    fn every_limiter_of_a_diagnosis_has_commands_unless_it_is_final() {
        for limiter in LIMITERS {
            let found = remedies(*limiter, &facts());
            let seen_by = limiter.seen_by();
            let is_diagnosed =
                [Instrument::Doctor, Instrument::Analyze].iter().any(|one| seen_by.contains(one));
            assert_eq!(!found.is_empty(), is_diagnosed && !limiter.is_final(), "{limiter:?}");
            assert!(found.iter().all(|remedy| !remedy.commands.trim().is_empty()), "{limiter:?}");
            assert!(found.iter().all(|remedy| remedy.commands.lines().count() <= 8), "{limiter:?}");
        }
    }

    #[test]
    fn a_logout_is_preceded_by_the_advice_to_unmount() {
        let all = LIMITERS.iter().flat_map(|limiter| remedies(*limiter, &facts()));
        let ends: Vec<Remedy> =
            all.filter(|r| r.commands.contains(" -u &&") || r.commands.contains("log in again")).collect();
        assert_eq!(ends.len(), 6, "{ends:?}");
        assert!(ends.iter().all(|remedy| remedy.commands.starts_with(UNMOUNT)), "{ends:?}");
    }

    #[test]
    fn a_target_that_refuses_commands_gets_fewer_or_a_longer_queue() {
        let mut facts = facts();
        facts.outstanding.refused_at = Some(17.0);
        let found = remedies(Limiter::TargetQueue, &facts);
        let of = |stack: &str| {
            let remedy = found.iter().find(|remedy| remedy.stack == stack);
            remedy.unwrap_or_else(|| panic!("{stack}: {found:?}")).commands.as_str()
        };
        assert!(of("open-iscsi").contains("node.session.queue_depth -v 16"), "{found:?}");
        assert!(of("open-iscsi").contains("echo 16 > /sys/block/DEV/device/queue_depth"), "{found:?}");
        assert!(of("LIO").contains("set attribute queue_depth=256"), "{found:?}");
        assert!(of("LIO").contains("echo 16 > ") && of("LIO").contains("cmdsn_depth"), "{found:?}");
        assert!(of("tgt").contains("MaxQueueCmd --value 16"), "{found:?}");
        assert!(found.iter().all(|remedy| remedy.commands.lines().count() <= 8), "{found:?}");
        facts.outstanding.refused_at = Some(1.0);
        let least = remedies(Limiter::TargetQueue, &facts);
        assert!(least.iter().any(|remedy| remedy.commands.contains("queue_depth -v 1\n")), "{least:?}");
    }

    #[test]
    fn a_write_cache_is_advised_for_writes_alone() {
        for is_write in [false, true] {
            for limiter in [Limiter::StoreLatency, Limiter::StoreBandwidth] {
                let found = remedies(limiter, &Facts { is_write, ..facts() });
                let caches = found.iter().filter(|r| r.commands.contains("write_back"));
                assert_eq!(caches.count(), usize::from(is_write), "{limiter:?}");
            }
        }
    }

    #[test]
    fn windows_takes_no_longer_first_burst() {
        let found = remedies(Limiter::R2t, &Facts { is_write: true, ..facts() });
        let windows = found.iter().find(|remedy| remedy.stack == "Windows").expect("a setting");
        let line = windows.commands.lines().find(|line| line.contains("FirstBurstLength")).expect("a line");
        assert!(
            line.contains("\\000N\\Parameters\" /v FirstBurstLength /t REG_DWORD /d 262144 /f"),
            "{line}"
        );
    }

    #[test]
    fn windows_opens_its_window_as_far_as_the_path_needs() {
        for (rtt_s, level) in [(0.01, "normal"), (0.25, "experimental")] {
            let mut facts = facts();
            facts.path.rtt_s = Some(rtt_s);
            let found = remedies(Limiter::ReceiveWindow, &facts);
            let windows = found.iter().find(|remedy| remedy.stack == "Windows").expect("a setting");
            assert!(windows.commands.ends_with(&format!("autotuninglevel={level}")), "{}", windows.commands);
        }
    }
}
