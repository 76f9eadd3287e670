//! A target with one small disk that can be told to misbehave: the test sees every request first, and what it does not
//! take is answered as it should be. One connection after the other, each on a blocking socket.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

use proto::login::{Admitted, Candidate, Directory, Existing, LoginPolicy, Status, Target as Login};
use wire::iscsi::{
    DataIn, LogoutResponse, Lun, NopIn, NopOut, Pdu, RESERVED_TAG, ScsiCommand, ScsiResponse, login_status,
    put_sense,
};
use wire::scsi::{Capacity16, Cdb, ReportLuns, Sense, StandardInquiry};

use super::pdu;

/// Its name.
pub(crate) const IQN: &str = "iqn.2026-11.org.example:fake";
/// Bytes of its disk, which one READ of `farlun read` covers.
pub(crate) const DISK_BYTES: u32 = 1 << 20;
const BLOCK_BYTES: u32 = 512;
/// Bytes of a Data-In, within what our initiator declares.
const SEGMENT_BYTES: u32 = 128 << 10;
/// Every byte of the disk.
pub(crate) const FILLING: u8 = 0xa5;

/// What the test makes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Answer it as a good target does.
    Serve,
    /// The test has dealt with it.
    Taken,
    /// Close the connection.
    Close,
}

/// A fake target, until all its connections have come and gone.
pub(crate) struct FakeTarget<T> {
    /// Where it is.
    pub(crate) address: SocketAddr,
    thread: JoinHandle<T>,
}

/// A connection in the full feature phase.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    pub(crate) max_cmd_sn: u32,
    /// NOP-Outs that answer a ping of ours, and their data.
    pub(crate) pongs: Vec<(NopOut, Vec<u8>)>,
    /// READs that have come.
    pub(crate) reads: usize,
}

/// Anybody may come in.
struct Open;

impl Directory for Open {
    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }

    fn admit(&mut self, _candidate: &Candidate) -> Result<(), Status> {
        Ok(())
    }

    fn join(&mut self, _: &Candidate, _: u16) -> Result<Existing, Status> {
        Err(login_status::SESSION_DOES_NOT_EXIST.into())
    }

    fn assign_tsih(&mut self, _candidate: &Candidate) -> Result<u16, Status> {
        Ok(1)
    }
}

impl<T: Send + 'static> FakeTarget<T> {
    /// Listens and runs `serve` on a thread of its own.
    pub(crate) fn start(serve: impl FnOnce(&TcpListener) -> T + Send + 'static) -> FakeTarget<T> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        FakeTarget { address, thread: thread::spawn(move || serve(&listener)) }
    }

    /// The URL of its disk.
    pub(crate) fn url(&self) -> String {
        format!("iscsi://{}/{IQN}/0", self.address)
    }

    /// What came of it; to be asked when the initiator has ended.
    pub(crate) fn join(self) -> T {
        self.thread.join().expect("the fake target does not panic")
    }
}

impl FakeTarget<Link> {
    /// Serves one session; `script` sees each request first.
    pub(crate) fn serve_one(
        script: impl FnMut(&mut Link, &Pdu) -> Verdict + Send + 'static,
    ) -> FakeTarget<Link> {
        FakeTarget::serve_after_login(Vec::new(), script)
    }

    /// The same, with `extra` in the same segment as the last response of the login.
    pub(crate) fn serve_after_login(
        extra: Vec<u8>,
        script: impl FnMut(&mut Link, &Pdu) -> Verdict + Send + 'static,
    ) -> FakeTarget<Link> {
        FakeTarget::start(move |listener| {
            let mut link = Link::log_in(accept(listener), &extra);
            link.serve(script);
            link
        })
    }
}

impl Link {
    /// Answers a login, with `extra` in the same segment as the last response.
    pub(crate) fn log_in(stream: TcpStream, extra: &[u8]) -> Link {
        // As a target of another kind: the private key is not answered.
        let policy = LoginPolicy { private_key: false, ..LoginPolicy::default() };
        Link::admit(stream, policy, extra).0
    }

    /// Answers a login as `policy` has it; every text that the initiator has sent.
    pub(crate) fn log_in_with(stream: TcpStream, policy: LoginPolicy) -> (Link, Vec<String>) {
        Link::admit(stream, policy, &[])
    }

    fn admit(stream: TcpStream, policy: LoginPolicy, extra: &[u8]) -> (Link, Vec<String>) {
        let mut stream = pdu::patient(stream);
        let mut login = Login::new(policy);
        let mut texts = Vec::new();
        loop {
            let request = pdu::read(&mut stream).expect("a login request").expect("a login request");
            let (Pdu::LoginRequest(request), text) = request else { panic!("no login: {request:?}") };
            texts.push(String::from_utf8_lossy(&text).into_owned());
            login.handle_request(&request, &text, &mut Open).expect("a login that can be granted");
            let (response, text) = login.poll_transmit().expect("every request is answered");
            let mut bytes = pdu::bytes(response, &text);
            let admitted = login.outcome();
            if admitted.is_some() {
                bytes.extend_from_slice(extra);
            }
            stream.write_all(&bytes).expect("the initiator reads");
            if let Some(&Admitted { stat_sn, exp_cmd_sn, max_cmd_sn, .. }) = admitted {
                let pongs = Vec::new();
                return (Link { stream, stat_sn, exp_cmd_sn, max_cmd_sn, pongs, reads: 0 }, texts);
            }
        }
    }

    /// Serves until one side closes, and closes.
    pub(crate) fn serve(&mut self, script: impl FnMut(&mut Link, &Pdu) -> Verdict) {
        self.serve_open(script);
        // The initiator may have closed before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn serve_open(&mut self, mut script: impl FnMut(&mut Link, &Pdu) -> Verdict) {
        loop {
            match pdu::read(&mut self.stream) {
                Ok(Some((request, data))) => {
                    self.note(&request, data);
                    match script(self, &request) {
                        Verdict::Serve if matches!(request, Pdu::LogoutRequest(_)) => {
                            self.answer(&request);
                            return;
                        }
                        Verdict::Serve => self.answer(&request),
                        Verdict::Taken => {}
                        Verdict::Close => return,
                    }
                }
                Ok(None) => return,
                Err(error) if pdu::is_end(&error) => return,
                Err(error) => panic!("the initiator neither speaks nor closes: {error}"),
            }
        }
    }

    fn note(&mut self, request: &Pdu, data: Vec<u8>) {
        match request {
            Pdu::ScsiCommand(command) => {
                self.exp_cmd_sn += 1;
                self.max_cmd_sn += 1;
                self.reads += usize::from(is_read(command));
            }
            Pdu::NopOut(nop) if nop.itt == RESERVED_TAG => self.pongs.push((*nop, data)),
            _ => {}
        }
    }

    fn answer(&mut self, request: &Pdu) {
        match request {
            Pdu::ScsiCommand(command) => self.execute(command),
            Pdu::NopOut(nop) if nop.itt != RESERVED_TAG => {
                let pong = NopIn { itt: nop.itt, ..self.nop_in(RESERVED_TAG) };
                self.send(pong, &[]);
            }
            Pdu::LogoutRequest(logout) => {
                let response = LogoutResponse {
                    response: 0,
                    itt: logout.itt,
                    stat_sn: self.take_stat_sn(),
                    exp_cmd_sn: self.exp_cmd_sn,
                    max_cmd_sn: self.max_cmd_sn,
                    time2wait: 0,
                    time2retain: 0,
                };
                self.send(response, &[]);
            }
            _ => {}
        }
    }

    pub(crate) fn execute(&mut self, command: &ScsiCommand) {
        let data = match Cdb::parse(&command.cdb) {
            Ok(Cdb::Inquiry { page: None, .. }) => inquiry(),
            Ok(Cdb::ReadCapacity16 { .. }) => capacity(),
            Ok(Cdb::ReportLuns { .. }) => ReportLuns { luns: vec![Lun::from_number(0)] }.emit(),
            Ok(Cdb::Read { blocks, .. }) => vec![FILLING; (blocks * BLOCK_BYTES) as usize],
            _ => return self.check(command, Sense::INVALID_FIELD_IN_CDB),
        };
        let len = data.len().min(command.expected_data_transfer_len as usize);
        self.send_data(command, &data[..len]);
    }

    /// Sends data in order, with GOOD in the last PDU.
    pub(crate) fn send_data(&mut self, command: &ScsiCommand, data: &[u8]) {
        self.send_data_with(command, data, |last| last);
    }

    /// The same, with a last PDU as `change` makes it.
    pub(crate) fn send_data_with(
        &mut self,
        command: &ScsiCommand,
        data: &[u8],
        change: impl Fn(DataIn) -> DataIn,
    ) {
        let parts = data.chunks(SEGMENT_BYTES as usize).count();
        for (index, part) in data.chunks(SEGMENT_BYTES as usize).enumerate() {
            let is_final = index + 1 == parts;
            let stat_sn = if is_final { self.take_stat_sn() } else { 0 };
            let pdu = DataIn {
                is_final,
                status: is_final.then_some(0),
                stat_sn,
                data_sn: index as u32,
                ..self.data_in(command, index as u32 * SEGMENT_BYTES)
            };
            self.send(if is_final { change(pdu) } else { pdu }, part);
        }
    }

    /// Data-In without status, the first of its command.
    pub(crate) fn data_in(&self, command: &ScsiCommand, buffer_offset: u32) -> DataIn {
        DataIn {
            is_final: false,
            acknowledge: false,
            overflow: false,
            underflow: false,
            status: None,
            data_segment_len: 0,
            lun: command.lun,
            itt: command.itt,
            ttt: RESERVED_TAG,
            stat_sn: 0,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
            data_sn: 0,
            buffer_offset,
            residual: 0,
        }
    }

    /// A response with a status.
    pub(crate) fn response(&mut self, command: &ScsiCommand, status: u8) -> ScsiResponse {
        ScsiResponse {
            bidi_overflow: false,
            bidi_underflow: false,
            overflow: false,
            underflow: false,
            response: 0,
            status,
            data_segment_len: 0,
            itt: command.itt,
            snack_tag: 0,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
            exp_data_sn: 0,
            bidi_residual: 0,
            residual: 0,
        }
    }

    pub(crate) fn check(&mut self, command: &ScsiCommand, sense: Sense) {
        let response = self.response(command, 2);
        let mut segment = Vec::new();
        put_sense(&sense.emit_fixed(), &mut segment);
        self.send(response, &segment);
    }

    /// A ping that wants an answer, unless `ttt` is reserved.
    pub(crate) fn nop_in(&self, ttt: u32) -> NopIn {
        NopIn {
            data_segment_len: 0,
            lun: Lun(0),
            itt: RESERVED_TAG,
            ttt,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn,
        }
    }

    /// The number of the next status, which is used up.
    pub(crate) fn take_stat_sn(&mut self) -> u32 {
        self.stat_sn += 1;
        self.stat_sn - 1
    }

    /// Sends one PDU.
    pub(crate) fn send(&mut self, pdu: impl Into<Pdu>, data: &[u8]) {
        self.send_bytes(&pdu::bytes(pdu, data));
    }

    /// Sends bytes; an initiator that has had enough may be gone.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let sent: io::Result<()> = self.stream.write_all(bytes);
        assert!(sent.as_ref().is_ok() || sent.as_ref().is_err_and(pdu::is_end), "{sent:?}");
    }
}

/// The next connection; an initiator that makes none is found out, and not waited for without end.
pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let is_there =
        net::wait::readable([listener.as_fd()], Some(pdu::PATIENCE)).expect("it can be waited for");
    assert_eq!(is_there, [true], "the initiator does not connect");
    listener.accept().expect("the initiator connects").0
}

/// Whether this is a READ.
pub(crate) fn is_read(command: &ScsiCommand) -> bool {
    matches!(Cdb::parse(&command.cdb), Ok(Cdb::Read { .. }))
}

fn inquiry() -> Vec<u8> {
    let inquiry = StandardInquiry {
        qualifier: 0,
        device_type: 0,
        removable: false,
        version: 6,
        hierarchical: true,
        protect: false,
        command_queue: true,
        vendor: "EXAMPLE".to_owned(),
        product: "FAKE".to_owned(),
        revision: "1".to_owned(),
        version_descriptors: [0; 8],
    };
    inquiry.emit().to_vec()
}

fn capacity() -> Vec<u8> {
    let capacity = Capacity16 {
        last_lba: u64::from(DISK_BYTES / BLOCK_BYTES - 1),
        block_len: BLOCK_BYTES,
        protection: None,
        physical_block_exponent: 0,
        thin: false,
        unmapped_reads_zero: false,
        lowest_aligned_lba: 0,
    };
    capacity.emit().to_vec()
}
