//! Options: structured replies, `base:allocation`, NBD_OPT_GO or NBD_OPT_EXPORT_NAME.

use wire::nbd::{
    BASE_ALLOCATION, ExportNameReply, ExportQuery, Info, MetaContext, MetaQuery, NewstyleGreeting,
    OptionReplyHeader, OptionRequest, handshake_flag, info_type, option_code, reply_type, transmission_flag,
};

use super::super::{ExportFacts, NbdBlockSizes, NbdFault, NbdViolation, OPTION_DATA_MAX_BYTES, OPTIONS_MAX};
use super::{NbdAgreement, NbdClient, NbdClientEvent, Step, handshake};

/// Longest part of a server's text that a fault repeats.
const TEXT_MAX_CHARS: usize = 200;

impl NbdClient {
    pub(super) fn greeting(&mut self, bytes: &[u8; NewstyleGreeting::LEN]) -> Result<(), NbdFault> {
        let NewstyleGreeting { flags } = NewstyleGreeting::parse(bytes)?;
        self.negotiation.has_no_zeroes = flags & handshake_flag::NO_ZEROES != 0;
        let is_fixed = flags & handshake_flag::FIXED_NEWSTYLE != 0;
        if self.is_leaving && !is_fixed {
            // This server knows no NBD_OPT_ABORT.
            self.step = Step::Over;
            return Ok(());
        }
        self.send(handshake(flags).to_bytes());
        if !is_fixed {
            self.ask_by_name();
        } else if self.config.wants_structured || self.config.wants_allocation {
            self.ask(option_code::STRUCTURED_REPLY, &[]);
        } else {
            self.ask_to_go();
        }
        Ok(())
    }

    pub(super) fn option_reply(&mut self, bytes: &[u8; OptionReplyHeader::LEN]) -> Result<(), NbdFault> {
        let header = OptionReplyHeader::parse(bytes)?;
        if header.option != self.negotiation.option {
            let (found, expected) = (header.option, self.negotiation.option);
            return Err(NbdViolation::OtherOption { found, expected }.into());
        }
        self.negotiation.replies += 1;
        if self.negotiation.replies > OPTIONS_MAX {
            return Err(NbdFault::TooMany { what: "replies to an option", limit: OPTIONS_MAX });
        }
        NbdFault::limit("a reply to an option", header.len_bytes, OPTION_DATA_MAX_BYTES)?;
        if header.len_bytes == 0 {
            return self.reply_data(header, &[]);
        }
        self.step = Step::ReplyData(header);
        Ok(())
    }

    pub(super) fn reply_data(&mut self, header: OptionReplyHeader, data: &[u8]) -> Result<(), NbdFault> {
        self.step = Step::Reply;
        let is_ack = header.reply == reply_type::ACK;
        if is_ack && !data.is_empty() {
            return Err(NbdViolation::AckData.into());
        }
        if matches!(header.reply, reply_type::ERR_TLS_REQD | reply_type::ERR_SHUTDOWN) {
            // No other option would succeed.
            return Err(refused(header, data));
        }
        match header.option {
            option_code::STRUCTURED_REPLY if is_ack => {
                self.negotiation.is_structured = true;
                if self.config.wants_allocation {
                    let mut query = Vec::new();
                    let name = self.config.export.as_bytes();
                    MetaQuery::put(&mut query, name, &[BASE_ALLOCATION.as_bytes()]);
                    self.ask(option_code::SET_META_CONTEXT, &query);
                } else {
                    self.ask_to_go();
                }
            }
            option_code::STRUCTURED_REPLY if header.is_error() => self.ask_to_go(),
            option_code::SET_META_CONTEXT if is_ack => self.ask_to_go(),
            option_code::SET_META_CONTEXT if header.is_error() => {
                self.negotiation.allocation_id = None;
                self.ask_to_go();
            }
            option_code::SET_META_CONTEXT if header.reply == reply_type::META_CONTEXT => {
                let MetaContext { id, name } = MetaContext::parse(data)?;
                if name != BASE_ALLOCATION.as_bytes() || self.negotiation.allocation_id.is_some() {
                    return Err(NbdViolation::Context.into());
                }
                self.negotiation.allocation_id = Some(id);
            }
            option_code::GO if is_ack => return self.ready(),
            option_code::GO if header.reply == reply_type::INFO => return self.take_info(data),
            option_code::GO if header.reply == reply_type::ERR_UNSUP => {
                (self.negotiation.export, self.negotiation.blocks) = (None, None);
                self.ask_by_name();
            }
            _ if header.is_error() => return Err(refused(header, data)),
            option => return Err(NbdViolation::OptionReply { option, reply: header.reply }.into()),
        }
        Ok(())
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), NbdFault> {
        let negotiation = &mut self.negotiation;
        match Info::parse(data)? {
            Info::Export { size_bytes, flags } => negotiation.export = Some((size_bytes, flags)),
            Info::BlockSize { minimum, preferred, maximum } => {
                let blocks = NbdBlockSizes { minimum, preferred, maximum };
                blocks.check()?;
                negotiation.blocks = Some(blocks);
            }
            Info::Name(_) | Info::Description(_) | Info::Other { .. } => {}
        }
        Ok(())
    }

    pub(super) fn export_name_reply(&mut self, bytes: &[u8; ExportNameReply::LEN]) -> Result<(), NbdFault> {
        let ExportNameReply { size_bytes, flags } = ExportNameReply::parse(bytes);
        self.negotiation.export = Some((size_bytes, flags));
        if self.negotiation.has_no_zeroes {
            return self.ready();
        }
        self.step = Step::Padding(ExportNameReply::PADDING_LEN as u32);
        Ok(())
    }

    /// Begins the transmission phase.
    pub(super) fn ready(&mut self) -> Result<(), NbdFault> {
        let negotiation = &self.negotiation;
        let Some((size_bytes, flags)) = negotiation.export else {
            return Err(NbdViolation::NoExportInfo.into());
        };
        let blocks = negotiation.blocks.unwrap_or(NbdBlockSizes::DEFAULT);
        // Flags have a meaning only with HAS_FLAGS, and DF one only with structured replies.
        let mut flags = if flags & transmission_flag::HAS_FLAGS == 0 { 0 } else { flags };
        if !negotiation.is_structured {
            flags &= !transmission_flag::SEND_DF;
        }
        let agreement = NbdAgreement {
            facts: ExportFacts {
                size_bytes: size_bytes - size_bytes % u64::from(blocks.minimum),
                flags,
                blocks,
            },
            is_structured: negotiation.is_structured,
            has_allocation: negotiation.allocation_id.is_some(),
        };
        self.agreement = Some(agreement);
        self.step = Step::Answer;
        if self.is_leaving {
            self.send_disconnect();
        } else {
            self.events.push_back(NbdClientEvent::Ready(agreement));
        }
        Ok(())
    }

    fn ask_to_go(&mut self) {
        let mut query = Vec::new();
        ExportQuery::put(&mut query, self.config.export.as_bytes(), &[info_type::BLOCK_SIZE]);
        self.ask(option_code::GO, &query);
    }

    fn ask_by_name(&mut self) {
        let name = self.config.export.clone();
        self.ask(option_code::EXPORT_NAME, name.as_bytes());
    }

    /// Sends the next option, or NBD_OPT_ABORT in its place if the caller has ended the connection.
    fn ask(&mut self, option: u32, data: &[u8]) {
        if self.is_leaving {
            return self.abort();
        }
        self.send_option(option, data);
        (self.negotiation.option, self.negotiation.replies) = (option, 0);
        self.step = if option == option_code::EXPORT_NAME { Step::ExportName } else { Step::Reply };
    }

    /// Ends the negotiation. The connection may be closed before the reply.
    pub(super) fn abort(&mut self) {
        self.send_option(option_code::ABORT, &[]);
        self.step = Step::Over;
    }

    fn send_option(&mut self, option: u32, data: &[u8]) {
        let len_bytes = u32::try_from(data.len()).expect("data of an option shorter than 4 GiB");
        let mut bytes = OptionRequest { option, len_bytes }.to_bytes().to_vec();
        bytes.extend_from_slice(data);
        self.send(bytes);
    }
}

fn refused(header: OptionReplyHeader, data: &[u8]) -> NbdFault {
    let text = String::from_utf8_lossy(data);
    let text = text.chars().take(TEXT_MAX_CHARS).flat_map(char::escape_default).collect();
    NbdFault::Refused { option: header.option, reply: header.reply, text }
}
