//! Options: fixed newstyle negotiation over the list of exports.

use wire::nbd::{
    BASE_ALLOCATION, ClientFlags, ExportEntry, ExportNameReply, ExportQuery, Info, MetaContext, MetaQuery,
    OptionReplyHeader, OptionRequest, STRING_MAX, client_flag, info_type, option_code, reply_type,
    transmission_flag,
};

use super::super::{NbdFault, NbdTransmit, NbdViolation, OPTION_DATA_MAX_BYTES, OPTIONS_MAX};
use super::{NbdServer, NbdServerEvent, Step, TlsPolicy};

/// Data of an option up to this length are thrown away; longer ones end the connection.
const SKIPPED_MAX_BYTES: u32 = 1 << 16;
/// Our number of `base:allocation`.
pub(super) const ALLOCATION_ID: u32 = 1;

impl NbdServer {
    pub(super) fn client_flags(&mut self, bytes: &[u8; ClientFlags::LEN]) -> Result<(), NbdFault> {
        let ClientFlags { flags } = ClientFlags::parse(bytes);
        if flags & !(client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES) != 0 {
            return Err(NbdViolation::HandshakeFlags { flags }.into());
        }
        self.has_fixed = flags & client_flag::FIXED_NEWSTYLE != 0;
        self.has_no_zeroes = flags & client_flag::NO_ZEROES != 0;
        self.step = Step::Option;
        Ok(())
    }

    pub(super) fn option(&mut self, bytes: &[u8; OptionRequest::LEN]) -> Result<(), NbdFault> {
        let request = OptionRequest::parse(bytes)?;
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(NbdFault::TooMany { what: "options", limit: OPTIONS_MAX });
        }
        let OptionRequest { option, len_bytes } = request;
        if !self.has_fixed && option != option_code::EXPORT_NAME {
            return Err(NbdViolation::NotFixed { option }.into());
        }
        if len_bytes == 0 {
            return self.answer_option(option, Some(&[]));
        }
        let limit_bytes =
            if option == option_code::EXPORT_NAME { STRING_MAX as u32 } else { SKIPPED_MAX_BYTES };
        NbdFault::limit("an option", len_bytes, limit_bytes)?;
        self.step = if len_bytes <= OPTION_DATA_MAX_BYTES {
            Step::OptionData(request)
        } else {
            Step::SkippedOption { option, len_bytes }
        };
        Ok(())
    }

    /// Answers an option with these data; `None` stands for data that were too long and thrown away. An option that is
    /// refused without a look at its data gets the same answer either way.
    pub(super) fn answer_option(&mut self, option: u32, data: Option<&[u8]>) -> Result<(), NbdFault> {
        self.step = Step::Option;
        let is_closed = self.config.tls == TlsPolicy::Required && !self.has_tls;
        let is_bare = data.is_some_and(<[u8]>::is_empty);
        match option {
            option_code::ABORT => {
                self.reply(option, reply_type::ACK, &[]);
                self.step = Step::Over;
                self.events.push_back(NbdServerEvent::Disconnected);
            }
            option_code::STARTTLS => self.tls(is_bare),
            option_code::EXPORT_NAME => {
                return self.export_name(data.expect("a name that is read"), is_closed);
            }
            _ if is_closed => self.refuse_option(option, reply_type::ERR_TLS_REQD, "begin TLS first"),
            option_code::LIST => self.list(is_bare),
            option_code::INFO | option_code::GO => self.info(option, data),
            option_code::STRUCTURED_REPLY if is_bare => {
                self.is_structured = true;
                self.reply(option, reply_type::ACK, &[]);
            }
            option_code::STRUCTURED_REPLY => self.refuse_data(option),
            option_code::LIST_META_CONTEXT | option_code::SET_META_CONTEXT => self.meta_context(option, data),
            _ => self.refuse_option(option, reply_type::ERR_UNSUP, ""),
        }
        Ok(())
    }

    /// Goes on under TLS; the state negotiated without it is discarded. `unread_bytes` is the number of plaintext bytes
    /// that the caller had read behind NBD_OPT_STARTTLS when it sent the answer. The caller throws them away: a client
    /// sends nothing before that answer, so they are options that somebody on the path has injected.
    ///
    /// # Errors
    /// Plaintext bytes: the connection is over.
    ///
    /// # Panics
    /// If the client has not begun TLS, or the answer is not sent.
    pub fn start_tls(&mut self, unread_bytes: usize) -> Result<(), NbdFault> {
        assert_eq!(self.step, Step::Tls, "TLS that no client has begun");
        assert!(self.outbox.is_empty(), "TLS begins behind the answer to NBD_OPT_STARTTLS");
        if unread_bytes > 0 {
            self.step = Step::Over;
            return Err(NbdViolation::Plaintext { bytes: unread_bytes }.into());
        }
        (self.has_tls, self.is_structured, self.allocation_of) = (true, false, None);
        self.step = Step::Option;
        Ok(())
    }

    fn tls(&mut self, is_bare: bool) {
        let option = option_code::STARTTLS;
        match self.config.tls {
            TlsPolicy::Unsupported => self.refuse_option(option, reply_type::ERR_UNSUP, ""),
            TlsPolicy::Forbidden => self.refuse_option(option, reply_type::ERR_POLICY, ""),
            _ if !is_bare => self.refuse_data(option),
            _ if self.has_tls => self.refuse_option(option, reply_type::ERR_INVALID, "TLS is in use"),
            TlsPolicy::Offered | TlsPolicy::Required => {
                self.reply(option, reply_type::ACK, &[]);
                self.step = Step::Tls;
                self.events.push_back(NbdServerEvent::StartTls);
            }
        }
    }

    fn export_name(&mut self, name: &[u8], is_closed: bool) -> Result<(), NbdFault> {
        if is_closed {
            return Err(NbdViolation::NoTls.into());
        }
        let export = self.find(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(&name[..name.len().min(64)]);
            NbdFault::UnknownExport(name.into_owned())
        })?;
        let size_bytes = self.config.exports[export].facts.size_bytes;
        let mut bytes = ExportNameReply { size_bytes, flags: self.flags(export) }.to_bytes().to_vec();
        if !self.has_no_zeroes {
            bytes.resize(ExportNameReply::LEN + ExportNameReply::PADDING_LEN, 0);
        }
        self.outbox.push(NbdTransmit::header(bytes));
        self.choose(export);
        Ok(())
    }

    fn choose(&mut self, export: usize) {
        self.chosen = Some(export);
        self.step = Step::Request;
        self.events.push_back(NbdServerEvent::Chosen { export });
    }

    fn list(&mut self, is_bare: bool) {
        let option = option_code::LIST;
        if !is_bare {
            return self.refuse_data(option);
        }
        if !self.config.lists {
            return self.refuse_option(option, reply_type::ERR_POLICY, "exports are not listed");
        }
        for index in 0..self.config.exports.len() {
            let mut entry = Vec::new();
            let export = &self.config.exports[index];
            ExportEntry { name: export.name.as_bytes(), details: export.description.as_bytes() }
                .put(&mut entry);
            self.reply(option, reply_type::SERVER, &entry);
        }
        self.reply(option, reply_type::ACK, &[]);
    }

    fn info(&mut self, option: u32, data: Option<&[u8]>) {
        let Some(data) = data else { return self.refuse_length(option) };
        let Ok(query) = ExportQuery::parse(data) else { return self.refuse_data(option) };
        let Some(index) = self.find(query.name) else {
            return self.refuse_option(option, reply_type::ERR_UNKNOWN, "no such export");
        };
        let config = std::sync::Arc::clone(&self.config);
        let export = &config.exports[index];
        let blocks = export.facts.blocks;
        let wants = |kind| query.infos().any(|info| info == kind);
        let mut infos = vec![Info::Export { size_bytes: export.facts.size_bytes, flags: self.flags(index) }];
        if wants(info_type::NAME) {
            infos.push(Info::Name(export.name.as_bytes()));
        }
        if wants(info_type::DESCRIPTION) && !export.description.is_empty() {
            infos.push(Info::Description(export.description.as_bytes()));
        }
        infos.push(Info::BlockSize {
            minimum: blocks.minimum,
            preferred: blocks.preferred,
            maximum: blocks.payload_max_bytes(),
        });
        for info in infos {
            let mut bytes = Vec::new();
            info.put(&mut bytes);
            self.reply(option, reply_type::INFO, &bytes);
        }
        // Clients of Linux do not ask with GO. They send whole sectors; a request of less is refused by itself.
        if option == option_code::INFO && blocks.minimum > 1 && !wants(info_type::BLOCK_SIZE) {
            let text = "request NBD_INFO_BLOCK_SIZE and keep to it";
            return self.refuse_option(option, reply_type::ERR_BLOCK_SIZE_REQD, text);
        }
        self.reply(option, reply_type::ACK, &[]);
        if option == option_code::GO {
            self.choose(index);
        }
    }

    fn meta_context(&mut self, option: u32, data: Option<&[u8]>) {
        let is_set = option == option_code::SET_META_CONTEXT;
        if is_set {
            self.allocation_of = None;
        }
        if !self.is_structured {
            return self.refuse_option(option, reply_type::ERR_INVALID, "structured replies come first");
        }
        let Some(data) = data else { return self.refuse_length(option) };
        let Ok(query) = MetaQuery::parse(data) else { return self.refuse_data(option) };
        let Some(index) = self.find(query.name) else {
            return self.refuse_option(option, reply_type::ERR_UNKNOWN, "no such export");
        };
        let is_wanted =
            query.queries().any(|query| query == BASE_ALLOCATION.as_bytes() || !is_set && query == b"base:")
                || !is_set && query.queries().next().is_none();
        if is_wanted && self.config.exports[index].has_allocation {
            let mut bytes = Vec::new();
            let id = if is_set { ALLOCATION_ID } else { 0 };
            MetaContext { id, name: BASE_ALLOCATION.as_bytes() }.put(&mut bytes);
            self.reply(option, reply_type::META_CONTEXT, &bytes);
            if is_set {
                self.allocation_of = Some(index);
            }
        }
        self.reply(option, reply_type::ACK, &[]);
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.config.exports.iter().position(|export| export.name.as_bytes() == name);
        named.or(if name.is_empty() { self.config.default_export } else { None })
    }

    /// Transmission flags of an export on this connection.
    pub(super) fn flags(&self, export: usize) -> u16 {
        let flags = self.config.exports[export].facts.flags | transmission_flag::HAS_FLAGS;
        if self.is_structured {
            flags | transmission_flag::SEND_DF
        } else {
            flags & !transmission_flag::SEND_DF
        }
    }

    fn refuse_data(&mut self, option: u32) {
        self.refuse_option(option, reply_type::ERR_INVALID, "malformed data of the option");
    }

    fn refuse_length(&mut self, option: u32) {
        let text = format!("data longer than {OPTION_DATA_MAX_BYTES} bytes");
        self.refuse_option(option, reply_type::ERR_TOO_BIG, &text);
    }

    fn refuse_option(&mut self, option: u32, reply: u32, text: &str) {
        self.reply(option, reply, text.as_bytes());
    }

    fn reply(&mut self, option: u32, reply: u32, data: &[u8]) {
        let len_bytes = u32::try_from(data.len()).expect("data of a reply shorter than 4 GiB");
        let mut bytes = OptionReplyHeader { option, reply, len_bytes }.to_bytes().to_vec();
        bytes.extend_from_slice(data);
        self.outbox.push(NbdTransmit::header(bytes));
    }
}
