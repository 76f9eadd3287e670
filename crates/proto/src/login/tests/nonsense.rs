//! Random PDUs and text against initiator and target: no panic, no endless login.

use super::*;

/// A small generator; the seed is the test's only input.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn text(&mut self) -> Vec<u8> {
        const LINES: &[&str] = &[
            "InitiatorName=iqn.a",
            "TargetName=iqn.2026-11.io.farlun:disk",
            "SessionType=Discovery",
            "AuthMethod=None",
            "CHAP_A=5",
            "MaxBurstLength=512",
            "FirstBurstLength=16777215",
            "InitialR2T=Yes",
            "ImmediateData=No",
            "HeaderDigest=CRC32C,None",
            "MaxRecvDataSegmentLength=16777215",
            "MaxOutstandingR2T=65535",
            "ErrorRecoveryLevel=2",
            "X-io.farlun.peer=farlun/9.9.9",
            "X-com.example=NotUnderstood",
            "TargetAddress=[::1]:1,1",
            "=",
            "a=\u{fffd}",
        ];
        let mut bytes = Vec::new();
        for _ in 0..self.below(8) {
            bytes.extend_from_slice(LINES[self.below(LINES.len())].as_bytes());
            bytes.push(0);
        }
        for _ in 0..self.below(3) {
            if !bytes.is_empty() && self.below(3) == 0 {
                let at = self.below(bytes.len());
                bytes[at] = self.below(256) as u8;
            }
        }
        bytes
    }
}

#[test]
fn nonsense_never_panics_and_always_ends() {
    let mut random = Random(0x5eed_0fa7_1a2b_3c4d);
    let (mut admitted, mut logged_in) = (0, 0);
    for _ in 0..20_000 {
        let mut target = Target::new(LoginPolicy::default());
        let mut directory = OneTarget { assigned: 0, full: random.below(20) == 0 };
        let mut initiator = Initiator::new(if random.below(2) == 0 { normal() } else { discovery() });
        let flags = [0x81, 0x87, 0x83, 0x00, 0x04, 0x40, 0x44];
        let mut stage = flags[random.below(flags.len())];
        for round in 0..6 {
            if random.below(4) == 0 {
                stage = random.below(256) as u8;
            }
            let mut data = random.text();
            if round == 0 && random.below(2) == 0 {
                data = text(&["InitiatorName=iqn.b", "SessionType=Discovery"]);
            }
            if random.below(50) == 0 {
                target.handle_other(1);
            }
            let _ = target.handle_request(&request(stage), &data, &mut directory);
            if let Some((answer, data)) = target.poll_transmit() {
                assert!(data.len() <= SEGMENT_BYTES && !(answer.transit && answer.is_continued));
                let _ = initiator.handle_response(&answer, &data);
            }
            if random.below(2) == 0 {
                let _ = initiator.handle_response(&response(stage), &random.text());
            }
            initiator.poll_transmit();
        }
        if let Some(outcome) = target.outcome() {
            admitted += 1;
            assert!(outcome.params.first_burst_len <= outcome.params.max_burst_len);
        }
        logged_in += u32::from(initiator.outcome().is_some());
    }
    assert!(admitted > 100 && logged_in > 100, "the test reaches the end of logins: {admitted}, {logged_in}");
}
