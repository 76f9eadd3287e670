//! What a header must be that the capture did not keep: what the PDUs before it leave to be said.
//!
//! Nothing is certain here. Whoever uses an answer counts it as inferred, and as refuted if no header is found where
//! the PDU would end.

use wire::iscsi::{BHS_LEN, Opcode};

use super::commands::Commands;
use super::framer::Framed;
use super::open::Open;
use super::plausible::Side;

const FINAL: u8 = 0x80;
const STATUS: u8 = 0x01;

/// A header of which some bytes follow from what was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    pub(super) bytes: [u8; BHS_LEN],
    /// A bit for every byte that is known.
    pub(super) known: u64,
}

/// What was seen lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    /// The last command whose header was there, and by how much the task tag grew with it.
    command: Option<(Framed, Option<u32>)>,
    /// Data of a Data-In, and of a Data-Out, at most.
    data_len: [u64; 2],
    /// Commands that were hidden since.
    since: u32,
}

impl Habits {
    /// A PDU has passed.
    pub(super) fn see(&mut self, framed: &Framed) {
        let place = match framed.opcode {
            Opcode::DataIn => 0,
            Opcode::DataOut => 1,
            Opcode::ScsiCommand => return self.command(framed),
            _ => return,
        };
        if !framed.inferred {
            self.data_len[place] = self.data_len[place].max(framed.data_len);
        }
    }

    fn command(&mut self, framed: &Framed) {
        if framed.inferred {
            self.since += 1;
            return;
        }
        let step = self.command.as_ref().and_then(|(before, known)| {
            let numbers = framed.word(24)?.wrapping_sub(before.word(24)?);
            let tags = framed.itt().wrapping_sub(before.itt());
            if numbers == 0 || tags % numbers != 0 { *known } else { Some(tags / numbers) }
        });
        self.command = Some((*framed, step));
        self.since = 0;
    }

    /// What `side` must say next, behind `last`.
    pub(super) fn next(&self, side: Side, last: Option<&Framed>, commands: &Commands) -> Option<Hidden> {
        match side {
            Side::Unknown => None,
            Side::Target => self.target(last, commands),
            Side::Initiator => self.initiator(last, commands),
        }
    }

    fn target(&self, last: Option<&Framed>, commands: &Commands) -> Option<Hidden> {
        let of_last = last.filter(|last| last.opcode == Opcode::DataIn);
        let of_last =
            of_last.and_then(|last| Some((last.data_len, last.itt(), commands.open.of(last.itt())?)));
        if let Some((len, itt, open)) = of_last {
            return data_in(itt, open, len, commands.collapses);
        }
        // The next in turn, unless it is the initiator's turn to say something of it.
        let (itt, open) = commands.open.oldest(|open| !(open.write && open.data_out < open.asked))?;
        if open.write && open.data_out < u64::from(open.bytes) {
            return Some(Hidden::new(Opcode::R2t, itt, 0).flags(FINAL));
        }
        if open.read { data_in(itt, open, self.data_len[0], commands.collapses) } else { Some(response(itt)) }
    }

    fn initiator(&self, last: Option<&Framed>, commands: &Commands) -> Option<Hidden> {
        let of_last = last.filter(|last| last.opcode == Opcode::DataOut);
        let of_last = of_last.and_then(|last| {
            let open = commands.open.of(last.itt())?;
            // Without an R2T it was not asked for, or what asked was hidden.
            let asked = if open.r2ts > 0 { open.asked } else { u64::from(open.bytes) };
            Some((last.itt(), last.data_len.min(asked.saturating_sub(open.data_out))))
        });
        if let Some((itt, len)) = of_last.filter(|(_, len)| *len > 0) {
            return Some(Hidden::new(Opcode::DataOut, itt, len));
        }
        if let Some((itt, open)) = commands.open.oldest(|open| open.r2ts > 0 && open.asked > open.data_out) {
            let len = self.data_len[1].min(open.asked - open.data_out);
            return (len > 0).then(|| Hidden::new(Opcode::DataOut, itt, len));
        }
        self.another_command()
    }

    /// A command like the last one, if task tags follow a rule.
    fn another_command(&self) -> Option<Hidden> {
        let (last, step) = self.command.as_ref()?;
        let nth = self.since + 1;
        let itt = last.itt().wrapping_add((*step)?.wrapping_mul(nth));
        let hidden = Hidden::new(Opcode::ScsiCommand, itt, last.data_len).flags(last.byte(1)?);
        Some(hidden.word(20, last.word(20)?).word(24, last.word(24)?.wrapping_add(nth)))
    }
}

/// More data of a read, or its status; most targets put that into the last data.
fn data_in(itt: u32, open: &Open, len: u64, collapses: Option<bool>) -> Option<Hidden> {
    let left = u64::from(open.bytes).saturating_sub(open.data_in);
    if left == 0 {
        return (collapses == Some(false)).then(|| response(itt));
    }
    let len = len.min(left);
    let hidden = Hidden::new(Opcode::DataIn, itt, len);
    match len < left {
        _ if len == 0 => None,
        true => Some(hidden),
        false if collapses == Some(false) => Some(hidden.flags(FINAL)),
        false => Some(hidden.flags(FINAL | STATUS)),
    }
}

fn response(itt: u32) -> Hidden {
    Hidden::new(Opcode::ScsiResponse, itt, 0).flags(FINAL)
}

impl Hidden {
    fn new(opcode: Opcode, itt: u32, data_len: u64) -> Self {
        let mut bytes = [0; BHS_LEN];
        bytes[0] = opcode.code();
        bytes[5..8].copy_from_slice(&(data_len as u32).to_be_bytes()[1..]);
        bytes[16..20].copy_from_slice(&itt.to_be_bytes());
        Self { bytes, known: 0xf << 16 | 0xe0 | 1 }
    }

    fn flags(mut self, flags: u8) -> Self {
        self.bytes[1] = flags;
        self.known |= 1 << 1;
        self
    }

    fn word(mut self, at: usize, word: u32) -> Self {
        self.bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        self.known |= 0xf << at;
        self
    }
}
