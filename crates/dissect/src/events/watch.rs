//! Events in the PDUs of one connection. Only headers that are in the capture count.

use wire::iscsi::Opcode;

use crate::budget::MemoryBudget;
use crate::events::event::ConnectionEvent;
use crate::events::log::{EventLog, Occurrence};
use crate::events::pings::{NopTag, TIMEOUT_NS};
use crate::events::response::ResponseData;
use crate::events::waiting::WaitingRequests;
use crate::iscsi::pdu::FramedPdu;
use crate::packets::packet_ref::PacketRef;

/// Offsets in headers: RFC 7143 sections 11.9 and 11.13.
const ASYNC_EVENT: usize = 36;
const LOGIN_STATUS: [usize; 2] = [36, 37];
/// Status class of a redirection.
const REDIRECTION: u8 = 1;
/// Longest address of a redirection in bytes: a DNS name (RFC 1035), port and portal group.
const ADDRESS_MAX: usize = 255 + 12;

/// Events of one connection, as its packets pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventWatch {
    pub(crate) log: EventLog,
    /// Pings of each direction.
    pings: [WaitingRequests<PacketRef>; 2],
    /// Number of the last packet of each direction in which a PDU may have passed unseen.
    hidden_packet: [u64; 2],
    logouts: WaitingRequests<Request>,
    management: WaitingRequests<Request>,
    /// The connection was reset.
    pub(crate) is_reset: bool,
}

/// A logout or a task management request.
#[derive(Clone, Copy, Debug)]
struct Request {
    itt: u32,
    /// Reason or function.
    code: u8,
    packet: PacketRef,
}

/// End of a connection in the capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionEnd {
    pub(crate) t_ns: u64,
    /// Every header of this direction is visible up to the end.
    pub(crate) is_clear: [bool; 2],
}

impl EventWatch {
    /// Takes a RST from the sender of `direction`; `is_answer` if it answers a SYN.
    pub(crate) fn reset(
        &mut self,
        direction: usize,
        packet: PacketRef,
        is_answer: bool,
        budget: &MemoryBudget,
    ) {
        self.is_reset = true;
        let event = if is_answer { ConnectionEvent::ConnectionRefused } else { ConnectionEvent::Reset };
        self.log.add(Occurrence::new(event, direction, packet), budget);
    }

    /// Takes a visible PDU of `direction`; `outstanding` commands are without a status, its own left out.
    pub(crate) fn pdu(
        &mut self,
        pdu: &FramedPdu,
        direction: usize,
        data: ResponseData,
        outstanding: usize,
        budget: &MemoryBudget,
    ) {
        let occurrence = |event| Occurrence {
            itt: Some(pdu.itt()),
            outstanding: outstanding as u64 + 1,
            ..Occurrence::new(event, direction, pdu.first)
        };
        match pdu.opcode {
            Opcode::ScsiResponse | Opcode::DataIn => {
                if let Some(event) = of_status(pdu, data) {
                    self.log.add(occurrence(event), budget);
                }
            }
            Opcode::NopOut | Opcode::NopIn => self.nop(pdu, direction, budget),
            Opcode::Reject => {
                let opcode = match data {
                    ResponseData::Refused(opcode) => Some(opcode),
                    _ => None,
                };
                if let Some(reason) = pdu.response() {
                    let event = ConnectionEvent::Reject { reason, opcode };
                    self.log.add(Occurrence::new(event, direction, pdu.first), budget);
                }
            }
            Opcode::AsyncMessage => {
                if let Some(event) = pdu.byte(ASYNC_EVENT) {
                    let event = ConnectionEvent::AsyncMessage { event };
                    self.log.add(Occurrence::new(event, direction, pdu.first), budget);
                }
            }
            Opcode::LogoutRequest | Opcode::TaskManagementRequest => {
                let Some(code) = pdu.byte(1).map(|flags| flags & 0x7f) else { return };
                let request = Request { itt: pdu.itt(), code, packet: pdu.first };
                let is_logout = pdu.opcode == Opcode::LogoutRequest;
                let exchanges = if is_logout { &mut self.logouts } else { &mut self.management };
                if let Some(oldest) = exchanges.add(request.itt, request) {
                    self.end_exchange(is_logout, oldest, None, direction, budget);
                }
            }
            Opcode::LogoutResponse | Opcode::TaskManagementResponse => {
                let Some(response) = pdu.response() else { return };
                let is_logout = pdu.opcode == Opcode::LogoutResponse;
                let exchanges = if is_logout { &mut self.logouts } else { &mut self.management };
                match exchanges.remove(pdu.itt()) {
                    Some(request) => {
                        self.end_exchange(is_logout, request, Some(response), 1 - direction, budget);
                    }
                    None => self.log.add(occurrence(exchange(is_logout, None, Some(response))), budget),
                }
            }
            _ => {}
        }
    }

    /// Takes the status of a login; `text` is the known part of its text.
    pub(crate) fn login_response(
        &mut self,
        pdu: &FramedPdu,
        direction: usize,
        text: &[u8],
        budget: &MemoryBudget,
    ) {
        let [Some(class), Some(detail)] = LOGIN_STATUS.map(|at| pdu.byte(at)) else { return };
        let (event, address) = match class {
            0 => return,
            REDIRECTION => (ConnectionEvent::Redirect { detail }, target_address(text)),
            _ => (ConnectionEvent::LoginRefused { class, detail }, None),
        };
        let occurrence = Occurrence::new(event, direction, pdu.first);
        self.log.add(Occurrence { address: address.as_deref(), ..occurrence }, budget);
    }

    /// Takes the number of a packet of `direction` in which a PDU may have passed unseen.
    pub(crate) fn hide(&mut self, direction: usize, packet: u64) {
        self.hidden_packet[direction] = self.hidden_packet[direction].max(packet);
    }

    /// Forgets requests without an answer: a part of the connection is not in the capture.
    pub(crate) fn pass_over(&mut self) {
        self.skip();
        self.logouts.take();
        self.management.take();
    }

    /// Forgets the pings without an answer: nobody watched for a while.
    pub(crate) fn skip(&mut self) {
        self.pings.iter_mut().for_each(|pings| drop(pings.take()));
    }

    /// Takes the end of the connection: requests without an answer have none.
    pub(crate) fn finish(&mut self, initiator: usize, end: ConnectionEnd, budget: &MemoryBudget) {
        for direction in [0, 1] {
            for ping in self.pings[direction].take() {
                if is_late(&ping, end.t_ns) && end.is_clear[1 - direction] {
                    self.time_out(direction, &ping, budget);
                }
            }
        }
        for is_logout in [true, false] {
            let exchanges = if is_logout { &mut self.logouts } else { &mut self.management };
            for request in exchanges.take() {
                self.end_exchange(is_logout, request, None, initiator, budget);
            }
        }
    }

    fn nop(&mut self, pdu: &FramedPdu, direction: usize, budget: &MemoryBudget) {
        match NopTag::new(pdu) {
            Some(NopTag::Ping(tag)) => {
                if let Some(oldest) = self.pings[direction].add(tag, pdu.first)
                    && is_late(&oldest, pdu.first.t_ns)
                {
                    self.time_out(direction, &oldest, budget);
                }
            }
            Some(NopTag::Answer(tag)) => {
                let sender = 1 - direction;
                if let Some(ping) = self.pings[sender].remove(tag)
                    && is_late(&ping, pdu.last.t_ns)
                {
                    self.time_out(sender, &ping, budget);
                }
            }
            None => {}
        }
    }

    /// Counts a ping of `direction`, unless its answer may have passed unseen.
    fn time_out(&mut self, direction: usize, ping: &PacketRef, budget: &MemoryBudget) {
        if self.hidden_packet[1 - direction] < ping.number {
            self.log.add(Occurrence::new(ConnectionEvent::NopTimeout, direction, *ping), budget);
        }
    }

    fn end_exchange(
        &mut self,
        is_logout: bool,
        request: Request,
        response: Option<u8>,
        initiator: usize,
        budget: &MemoryBudget,
    ) {
        let event = exchange(is_logout, Some(request.code), response);
        let occurrence = Occurrence::new(event, initiator, request.packet);
        self.log.add(Occurrence { itt: Some(request.itt), ..occurrence }, budget);
    }
}

fn exchange(is_logout: bool, code: Option<u8>, response: Option<u8>) -> ConnectionEvent {
    match is_logout {
        true => ConnectionEvent::Logout { reason: code, response },
        false => ConnectionEvent::TaskManagement { function: code, response },
    }
}

fn is_late(ping: &PacketRef, now_ns: u64) -> bool {
    now_ns.saturating_sub(ping.t_ns) >= TIMEOUT_NS
}

/// Event of a status; `None` for a good one, and where its byte is not in the capture.
fn of_status(pdu: &FramedPdu, data: ResponseData) -> Option<ConnectionEvent> {
    let status = pdu.scsi_status()?;
    if pdu.opcode == Opcode::ScsiResponse
        && let Some(response) = pdu.response().filter(|response| *response != 0)
    {
        return Some(ConnectionEvent::ResponseCode { response });
    }
    match (ConnectionEvent::from_status(status)?, data) {
        (ConnectionEvent::CheckCondition { .. }, ResponseData::Sense(sense)) => {
            Some(ConnectionEvent::CheckCondition { sense: Some(sense), is_captured: true })
        }
        (ConnectionEvent::CheckCondition { .. }, ResponseData::NoSense) => {
            Some(ConnectionEvent::CheckCondition { sense: None, is_captured: true })
        }
        (event, _) => Some(event),
    }
}

/// TargetAddress in a login's text (RFC 7143 section 13.8), if all of it is known. Characters that no address has are
/// replaced: the text is somebody's.
fn target_address(text: &[u8]) -> Option<String> {
    // A value ends with a null byte; one that does not may be cut.
    let mut pairs: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    pairs.pop();
    let value = pairs.iter().find_map(|pair| pair.strip_prefix(b"TargetAddress="))?;
    let printable = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    Some(value.iter().take(ADDRESS_MAX).map(printable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_whole_and_printable() {
        let check = |text: &[u8], expected: Option<&str>| {
            assert_eq!(target_address(text).as_deref(), expected);
        };
        check(b"TargetAddress=192.0.2.7:3260,1\0", Some("192.0.2.7:3260,1"));
        check(b"X=Y\0TargetAddress=[2001:db8::1]:3260\0\0", Some("[2001:db8::1]:3260"));
        check(b"TargetAddress=192.0.2.7:32", None);
        check(b"TargetAddress=\x1b[31ma\xff\0", Some("?[31ma?"));
        check(b"", None);
        let long = [b"TargetAddress=".as_slice(), &[b'a'; 9_000], b"\0"].concat();
        assert_eq!(target_address(&long).map(|address| address.len()), Some(ADDRESS_MAX));
    }
}
