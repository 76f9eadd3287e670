//! Prediction of headers that the capture did not keep, from the PDUs before them.
//!
//! A prediction is uncertain. The framer keeps it provisional until a visible header follows the predicted PDU. The end of
//! the packet helps: senders end packets with PDUs, so that a rest of whole basic headers hardly is the beginning of data.

use wire::iscsi::{BHS_LEN, Opcode};

use crate::iscsi::commands::table::OutstandingCommand;
use crate::iscsi::commands::tracker::CommandTracker;
use crate::iscsi::header::PartialHeader;
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::role::Role;

const FINAL: u8 = 0x80;
const STATUS: u8 = 0x01;

/// Properties of the PDUs so far on which predictions are based.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderPredictor {
    /// Last command with a known header, and the difference of task tags per CmdSN.
    command: Option<(FramedPdu, Option<u32>)>,
    /// Last visible command without immediate data, and with it.
    like: [Option<FramedPdu>; 2],
    /// Largest data segment of a Data-In, and of a Data-Out, in bytes.
    data_len: [u64; 2],
    /// Inferred commands since that command.
    pub(super) since: u32,
}

/// Most PDUs without data that the rest of a packet is taken for, if it may as well be data: one in 48 lengths of data is a
/// number of headers.
const BARE_MAX: u64 = 4;

/// The packet of a hidden header, from that header on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketRest {
    /// Length in bytes.
    pub(super) len: u64,
    /// Length of a PDU without data in bytes: a header and its digest.
    pub(super) bare_len: u64,
}

impl PacketRest {
    pub(super) fn new(len: u64, header_digest: bool) -> Self {
        Self { len, bare_len: BHS_LEN as u64 + if header_digest { 4 } else { 0 } }
    }

    /// True if it can be PDUs without data and nothing else.
    fn is_bare(self) -> bool {
        self.len > 0 && self.len.is_multiple_of(self.bare_len)
    }

    /// True if these are so few that data of this length is unlikely.
    fn is_short(self) -> bool {
        self.is_bare() && self.len <= BARE_MAX * self.bare_len
    }
}

impl HeaderPredictor {
    /// Takes a PDU: a visible one that is confirmed, or an inferred one.
    pub(super) fn observe(&mut self, pdu: &FramedPdu) {
        let place = match pdu.opcode {
            Opcode::DataIn => 0,
            Opcode::DataOut => 1,
            Opcode::ScsiCommand => return self.observe_command(pdu),
            _ => return,
        };
        if !pdu.inferred {
            self.data_len[place] = self.data_len[place].max(pdu.data_len);
        }
    }

    fn observe_command(&mut self, pdu: &FramedPdu) {
        if pdu.inferred {
            self.since += 1;
            return;
        }
        let step = self.command.as_ref().and_then(|(before, known)| {
            let numbers = pdu.word(24)?.wrapping_sub(before.word(24)?);
            let tags = pdu.itt().wrapping_sub(before.itt());
            if numbers == 0 || tags % numbers != 0 { *known } else { Some(tags / numbers) }
        });
        self.command = Some((*pdu, step));
        self.like[usize::from(pdu.data_len > 0)] = Some(*pdu);
        self.since = 0;
    }

    /// True if task tags grow evenly.
    pub(super) fn tags_grow(&self) -> bool {
        self.command.as_ref().is_some_and(|(_, step)| step.is_some_and(|step| step != 0 && step < 1 << 24))
    }

    /// Header that `sender` must send after `last`.
    pub(super) fn next(
        &self,
        sender: Role,
        last: Option<&FramedPdu>,
        rest: PacketRest,
        commands: &CommandTracker,
    ) -> Option<PartialHeader> {
        match sender {
            Role::Unknown => None,
            Role::Target => self.target(last, rest, commands),
            Role::Initiator => self.initiator(last, rest, commands),
        }
    }

    fn target(
        &self,
        last: Option<&FramedPdu>,
        rest: PacketRest,
        commands: &CommandTracker,
    ) -> Option<PartialHeader> {
        let of_last = last.filter(|last| last.opcode == Opcode::DataIn);
        let of_last =
            of_last.and_then(|last| Some((last.data_len, last.itt(), commands.table.get(last.itt())?)));
        if let Some((len, itt, command)) = of_last {
            return data_in(itt, command, len, commands.phase_collapse);
        }
        // The oldest command, unless the initiator must send data for it first.
        let is_due = |command: &OutstandingCommand| !command.owes_data();
        let without_data = |command: &OutstandingCommand| is_due(command) && !command.request.read;
        let with_data = |command: &OutstandingCommand| {
            is_due(command) && command.request.read && !command.is_read_complete()
        };
        let fitting = match rest.is_short() {
            true => commands.table.oldest(without_data),
            false => commands.table.oldest(with_data),
        };
        let (itt, command) = fitting.or_else(|| commands.table.oldest(is_due))?;
        if command.request.write && command.transfer.data_out < u64::from(command.request.bytes) {
            return Some(PartialHeader::inferred(Opcode::R2t, itt, 0).with_flags(FINAL));
        }
        match command.request.read {
            true => data_in(itt, command, self.data_len[0], commands.phase_collapse),
            false => Some(response(itt)),
        }
    }

    fn initiator(
        &self,
        last: Option<&FramedPdu>,
        rest: PacketRest,
        commands: &CommandTracker,
    ) -> Option<PartialHeader> {
        let of_last = last.filter(|last| last.opcode == Opcode::DataOut);
        let of_last = of_last.and_then(|last| {
            let OutstandingCommand { request, transfer, .. } = commands.table.get(last.itt())?;
            // Without an R2T the data is unsolicited, or the R2T was hidden.
            let end = if transfer.r2ts > 0 { transfer.permitted } else { u64::from(request.bytes) };
            Some((last.itt(), last.data_len.min(end.saturating_sub(transfer.data_out))))
        });
        if let Some((itt, len)) = of_last.filter(|(_, len)| *len > 0) {
            return Some(PartialHeader::inferred(Opcode::DataOut, itt, len));
        }
        if rest.is_short() || rest.is_bare() && self.like[1].is_none() {
            return self.next_command(true);
        }
        let is_solicited = |command: &OutstandingCommand| {
            command.transfer.r2ts > 0 && command.transfer.permitted > command.transfer.data_out
        };
        if let Some((itt, command)) = commands.table.oldest(is_solicited) {
            let len = self.data_len[1].min(command.transfer.permitted - command.transfer.data_out);
            return (len > 0).then(|| PartialHeader::inferred(Opcode::DataOut, itt, len));
        }
        self.next_command(false)
    }

    /// The next command, if task tags grow evenly: like the last one without immediate data, or with it.
    fn next_command(&self, is_bare: bool) -> Option<PartialHeader> {
        let (last, step) = self.command.as_ref()?;
        let nth = self.since + 1;
        let itt = last.itt().wrapping_add((*step)?.wrapping_mul(nth));
        let cmd_sn = last.word(24)?.wrapping_add(nth);
        let like = self.like[usize::from(!is_bare)].as_ref();
        match like {
            Some(like) => {
                let header = PartialHeader::inferred(Opcode::ScsiCommand, itt, like.data_len);
                let header = header.with_flags(like.byte(1)?).with_word(20, like.word(20)?);
                Some(header.with_word(24, cmd_sn))
            }
            None if is_bare => {
                Some(PartialHeader::inferred(Opcode::ScsiCommand, itt, 0).with_word(24, cmd_sn))
            }
            None => None,
        }
    }
}

/// More data of a read, or its status. Most targets send the status with the last data (phase collapse).
fn data_in(
    itt: u32,
    command: &OutstandingCommand,
    len: u64,
    phase_collapse: Option<bool>,
) -> Option<PartialHeader> {
    let left = u64::from(command.request.bytes).saturating_sub(command.transfer.data_in);
    if left == 0 {
        return (phase_collapse == Some(false)).then(|| response(itt));
    }
    let len = len.min(left);
    let header = PartialHeader::inferred(Opcode::DataIn, itt, len);
    match len < left {
        _ if len == 0 => None,
        true => Some(header),
        false if phase_collapse == Some(false) => Some(header.with_flags(FINAL)),
        false => Some(header.with_flags(FINAL | STATUS)),
    }
}

fn response(itt: u32) -> PartialHeader {
    PartialHeader::inferred(Opcode::ScsiResponse, itt, 0).with_flags(FINAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;
    use crate::iscsi::pdu::Hidden;
    use crate::packets::packet_ref::PacketRef;

    fn visible(opcode: Opcode, header: PartialHeader) -> FramedPdu {
        let data_len = header.bhs().data_segment_len() as u64;
        FramedPdu {
            opcode,
            header,
            data_len,
            start: 0,
            end: 0,
            first: PacketRef::default(),
            last: PacketRef::default(),
            inferred: false,
            end_missing: false,
            provisional: false,
            hidden_before: Hidden::default(),
        }
    }

    /// A write of 64 KiB with a CmdSN that is its task tag.
    fn write(itt: u32, immediate_len: u64) -> FramedPdu {
        let header = PartialHeader::inferred(Opcode::ScsiCommand, itt, immediate_len).with_flags(0xa0);
        visible(Opcode::ScsiCommand, header.with_word(20, 65_536).with_word(24, itt))
    }

    fn data_out(itt: u32, len: u64) -> FramedPdu {
        visible(Opcode::DataOut, PartialHeader::inferred(Opcode::DataOut, itt, len))
    }

    #[test]
    fn an_initiator_sends_the_data_that_was_asked_for_before_its_next_command() {
        let (data, bare) = (PacketRest::new(1448, false), PacketRest::new(48, false));
        let next = (Opcode::ScsiCommand, 3, 0);
        let like = (Opcode::ScsiCommand, 3, 4096);
        for (asked_len, data_len, last, rest, expected) in [
            (0, 8192, None, data, Some(like)),
            (16_384, 8192, None, data, Some((Opcode::DataOut, 1, 8192))),
            (5_000, 8192, None, data, Some((Opcode::DataOut, 1, 5_000))),
            // No Data-Out has shown the length of one.
            (16_384, 0, None, data, None),
            // The rest of the packet has room for a header without data.
            (16_384, 8192, None, bare, Some(next)),
            // A burst that has begun is finished first.
            (16_384, 8192, Some(data_out(1, 8192)), bare, Some((Opcode::DataOut, 1, 8192))),
            (16_384, 8192, Some(data_out(1, 4096)), data, Some((Opcode::DataOut, 1, 4096))),
            (12_000, 8192, Some(data_out(1, 8192)), data, Some((Opcode::DataOut, 1, 3_808))),
            (8_192, 8192, Some(data_out(1, 8192)), data, Some(like)),
        ] {
            let budget = MemoryBudget::new(1 << 20);
            let (mut predictor, mut commands) = (HeaderPredictor::default(), CommandTracker::default());
            for command in [write(1, 0), write(2, 4096)] {
                predictor.observe(&command);
                commands.request(&command, 0, &budget);
            }
            if data_len > 0 {
                predictor.observe(&data_out(9, data_len));
            }
            if asked_len > 0 {
                let r2t = PartialHeader::inferred(Opcode::R2t, 1, 0).with_word(44, asked_len);
                commands.answer(&visible(Opcode::R2t, r2t), &budget);
            }
            if let Some(last) = &last {
                commands.answer(last, &budget);
            }
            let header = predictor.next(Role::Initiator, last.as_ref(), rest, &commands);
            let found = header.map(|header| {
                let bhs = header.bhs();
                (bhs.opcode().expect("an opcode"), bhs.itt(), bhs.data_segment_len())
            });
            assert_eq!(found, expected, "{asked_len} asked for, {data_len} at a time, {last:?}, {rest:?}");
        }
    }
}
