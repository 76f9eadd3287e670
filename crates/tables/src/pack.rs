//! Rows as a few 64-bit words, the form in memory and in a spool file until they are encoded. Private to this process;
//! other programs read the Parquet files.

use event::{
    FarTimes, Host, Instant, Io, LayerTimes, Layers, NearTimes, Op, PduSeen, RequestId, TcpTimes, Way,
};

use crate::{Row, Word};

/// A row that fits into a fixed number of words.
pub trait Packed: Row {
    /// The words.
    type Words: AsRef<[u64]>;
    /// Number of words.
    const WORDS: usize = size_of::<Self::Words>() / 8;

    /// The row in words.
    fn pack(&self) -> Self::Words;

    /// The row that [`Packed::pack`] made [`Packed::WORDS`] words of.
    fn unpack(words: &[u64]) -> Self;
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpair(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn at(word: u64) -> Instant {
    Instant::from_nanos(word)
}

impl Packed for Io {
    type Words = [u64; 4];

    fn pack(&self) -> [u64; 4] {
        let small = u32::from(self.status) | (self.op as u32) << 8;
        [self.issued.as_nanos(), self.completed.as_nanos(), self.offset_bytes, pair(self.len_bytes, small)]
    }

    fn unpack(words: &[u64]) -> Io {
        let (len_bytes, small) = unpair(words[3]);
        Io {
            issued: at(words[0]),
            completed: at(words[1]),
            op: op(small >> 8),
            offset_bytes: words[2],
            len_bytes,
            status: small as u8,
        }
    }
}

impl Packed for Layers {
    type Words = [u64; 20];

    fn pack(&self) -> [u64; 20] {
        let Layers { id, tcp, .. } = self;
        let is_far = matches!(self.times, LayerTimes::Far(_));
        let small = u32::from(self.status)
            | u32::from(self.lun) << 8
            | (self.op as u32) << 24
            | u32::from(is_far) << 25;
        let times = match &self.times {
            LayerTimes::Near(t) => [
                t.called,
                t.scsi,
                t.queued,
                t.granted,
                t.started,
                t.socketed,
                t.data_first,
                t.data_last,
                t.status,
                t.completed,
            ],
            LayerTimes::Far(t) => [
                t.received,
                t.parsed,
                t.executed,
                t.r2t_first,
                t.data_out_last,
                t.store_begin,
                t.store_end,
                t.answered,
                t.sent,
                Instant::ZERO,
            ],
        };
        let [a, b, c, d, e, f, g, h, i, j] = times.map(Instant::as_nanos);
        [
            id.session,
            pair(id.connection, id.itt),
            pair(id.cmd_sn, self.len_bytes),
            u64::from(small),
            self.offset_bytes,
            self.command_stream_end,
            self.status_stream_end,
            tcp.queued.as_nanos(),
            tcp.wire.as_nanos(),
            tcp.acked.as_nanos(),
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
        ]
    }

    fn unpack(words: &[u64]) -> Layers {
        let (connection, itt) = unpair(words[1]);
        let (cmd_sn, len_bytes) = unpair(words[2]);
        let small = words[3] as u32;
        let t = |n: usize| at(words[10 + n]);
        let times = if small >> 25 & 1 == 0 {
            LayerTimes::Near(NearTimes {
                called: t(0),
                scsi: t(1),
                queued: t(2),
                granted: t(3),
                started: t(4),
                socketed: t(5),
                data_first: t(6),
                data_last: t(7),
                status: t(8),
                completed: t(9),
            })
        } else {
            LayerTimes::Far(FarTimes {
                received: t(0),
                parsed: t(1),
                executed: t(2),
                r2t_first: t(3),
                data_out_last: t(4),
                store_begin: t(5),
                store_end: t(6),
                answered: t(7),
                sent: t(8),
            })
        };
        Layers {
            id: RequestId { session: words[0], connection, itt, cmd_sn },
            op: op(small >> 24),
            status: small as u8,
            lun: (small >> 8) as u16,
            len_bytes,
            offset_bytes: words[4],
            command_stream_end: words[5],
            status_stream_end: words[6],
            tcp: TcpTimes { queued: at(words[7]), wire: at(words[8]), acked: at(words[9]) },
            times,
        }
    }
}

impl Packed for PduSeen {
    type Words = [u64; 12];

    fn pack(&self) -> [u64; 12] {
        let PduSeen { id, tcp, .. } = self;
        let small = self.kind as u32
            | u32::from(self.has_status) << 8
            | u32::from(self.way == Way::In) << 9
            | u32::from(self.host == Host::Far) << 10;
        [
            self.t.as_nanos(),
            id.session,
            pair(id.connection, id.itt),
            pair(id.cmd_sn, self.stat_sn),
            pair(self.data_sn, self.offset_bytes),
            pair(self.len_bytes, small),
            self.stream_begin,
            self.stream_end,
            self.socketed.as_nanos(),
            tcp.queued.as_nanos(),
            tcp.wire.as_nanos(),
            tcp.acked.as_nanos(),
        ]
    }

    fn unpack(words: &[u64]) -> PduSeen {
        let (connection, itt) = unpair(words[2]);
        let (cmd_sn, stat_sn) = unpair(words[3]);
        let (data_sn, offset_bytes) = unpair(words[4]);
        let (len_bytes, small) = unpair(words[5]);
        PduSeen {
            t: at(words[0]),
            host: if small >> 10 & 1 == 0 { Host::Near } else { Host::Far },
            id: RequestId { session: words[1], connection, itt, cmd_sn },
            way: if small >> 9 & 1 == 0 { Way::Out } else { Way::In },
            kind: Word::ALL[usize::from(small as u8)],
            has_status: small >> 8 & 1 == 1,
            stat_sn,
            data_sn,
            offset_bytes,
            len_bytes,
            stream_begin: words[6],
            stream_end: words[7],
            socketed: at(words[8]),
            tcp: TcpTimes { queued: at(words[9]), wire: at(words[10]), acked: at(words[11]) },
        }
    }
}

fn op(bits: u32) -> Op {
    if bits & 1 == 0 { Op::Read } else { Op::Write }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_kinds_are_in_their_order() {
        for (index, kind) in <event::PduKind as Word>::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
