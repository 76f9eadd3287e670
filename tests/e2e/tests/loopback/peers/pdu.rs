//! PDUs on a blocking socket, for peers of our own making. Nothing is checked here: what is wrong with a PDU is up to
//! the test that sends it.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Duration;

use wire::iscsi::{BHS_LEN, Bhs, Pdu, padding};

/// How long a socket may stay silent or full before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a PDU; DataSegmentLength is set to the length of `data`.
pub(crate) fn bytes(pdu: impl Into<Pdu>, data: &[u8]) -> Vec<u8> {
    let mut header = [0; BHS_LEN];
    pdu.into().emit(&mut header);
    header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len() + padding(data.len()), 0);
    bytes
}

/// The next PDU and its data segment without padding; `None` when the peer has closed.
pub(crate) fn read(stream: &mut TcpStream) -> io::Result<Option<(Pdu, Vec<u8>)>> {
    let mut header = [0; BHS_LEN];
    if again(|| stream.read(&mut header[..1]))? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[1..])?;
    let len = Bhs::new(&header).data_segment_len();
    let mut data = vec![0; Bhs::new(&header).ahs_len() + len + padding(len)];
    stream.read_exact(&mut data)?;
    data.drain(..Bhs::new(&header).ahs_len());
    data.truncate(len);
    let pdu = Pdu::parse(&header).map_err(io::Error::other)?;
    Ok(Some((pdu, data)))
}

/// Asks again after an interruption. Where a socket has a timeout, its calls end with one if the process was stopped
/// and goes on, whatever its signals do (signal(7)).
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

/// Whether this is how a connection ends that the peer has closed.
pub(crate) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// A socket that is given up on rather than waited for without end.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).expect("a socket option");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
    stream
}
