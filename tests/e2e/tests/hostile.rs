//! Random and crafted bytes on our target's port: their connection is closed, the target stays, others go on.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use e2e::ours::Target;
use e2e::{Service, farlun, run};

const MINUTE: Duration = Duration::from_secs(60);

/// Bytes that are the same in every run: xorshift over a seed that is never zero.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(step).take(length).collect()
}

/// A login request whose header says it carries 16 MiB of text.
fn endless_login() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(&[0x43, 0x87, 0, 0, 0, 0xff, 0xff, 0xff]);
    bytes
}

/// A SCSI command before any login.
fn command_before_login() -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[0] = 0x01;
    bytes[1] = 0xc1;
    bytes[32] = 0x28;
    bytes
}

/// A login request whose text has a key without a value, an unknown key and no terminating zero.
fn login_with_odd_text() -> Vec<u8> {
    let text = b"InitiatorName\0X-com.example.key=1\0=\0\0\0SessionType=Neither\0MaxBurstLength=-1";
    let mut bytes = vec![0; 48];
    bytes[0] = 0x43;
    bytes[1] = 0x87;
    bytes[7] = text.len() as u8;
    bytes.extend_from_slice(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends the bytes, says that nothing follows, and waits until the target closes too.
#[track_caller]
fn send_and_expect_close(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("the target accepts");
    stream.set_read_timeout(Some(MINUTE)).expect("a timeout can be set");
    // The target may close before it has taken all: that is its right.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = [0; 4096];
    loop {
        match stream.read(&mut answer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the target did not close the connection: {error}"),
        }
    }
}

#[test]
fn bytes_that_are_no_pdus() {
    let mut target = Target::serve(&["memory:1MiB"]);
    for bytes in
        [endless_login(), command_before_login(), login_with_odd_text(), b"GET / HTTP/1.1\r\n\r\n".to_vec()]
    {
        send_and_expect_close(target.address(), &bytes);
    }
    assert!(target.service.alive(), "{}", target.service.stderr());
    run(&mut farlun(["ls", &target.portal()]), MINUTE).expect_code(0);
}

#[test]
fn random_bytes_beside_a_session_that_works() {
    let mut target = Target::serve(&["memory:256MiB"]);
    let folder = tempfile::Builder::new().prefix("farlun-hostile-").tempdir().expect("a temporary folder");
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    fs::write(&image, noise(7, 64 << 20)).expect("an image");

    let mut write = Service::start(farlun(["write", &target.url(0), "--json", "-i"]).arg(&image));
    let mut seed = 1;
    // At least a hundred, and as many as fit while the other session works.
    while seed <= 100 || (write.alive() && seed <= 10_000) {
        send_and_expect_close(target.address(), &noise(seed, 48 + (seed as usize * 37) % 4096));
        seed += 1;
    }
    assert_eq!(write.ended(MINUTE), 0, "{}", write.stderr());

    let mut read = farlun(["read", &target.url(0), "--length", "64MiB", "-o"]);
    run(read.arg(&copy), MINUTE).expect_code(0);
    assert!(fs::read(&copy).expect("the copy") == fs::read(&image).expect("the image"), "the data suffered");
    assert!(target.service.alive(), "{}", target.service.stderr());
    assert_eq!(target.service.terminate(), 0, "{}", target.service.stderr());
}
