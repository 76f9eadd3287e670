//! What only these targets do with a connection.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use wire::iscsi::{RESERVED_TAG, TextRequest, TextResponse};

use crate::peers::fake_target::Link;

impl Link {
    pub(crate) fn answer_text(&mut self, request: &TextRequest, text: &[u8]) {
        let response = TextResponse {
            is_final: true,
            is_continued: false,
            data_segment_len: 0,
            lun: request.lun,
            itt: request.itt,
            ttt: RESERVED_TAG,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
        };
        self.send(response, text);
    }

    /// Whether the initiator has sent more than was read.
    pub(crate) fn has_more(&self) -> bool {
        net::wait::readable([self.stream.as_fd()], Some(Duration::ZERO)).expect("it can be waited for")
            == [true]
    }

    /// Sends bytes; `false` if the initiator is there and has taken none for longer than it may be busy.
    pub(crate) fn is_taken(&mut self, bytes: &[u8]) -> bool {
        // A part may be taken first, and the rest waited for anew; the initiator gives up after two seconds.
        const BUSY: Duration = Duration::from_millis(300);
        self.stream.set_write_timeout(Some(BUSY)).expect("a socket option");
        let sent = self.stream.write_all(bytes).map_err(|error| error.kind());
        !matches!(sent, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}
