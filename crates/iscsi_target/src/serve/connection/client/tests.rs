//! A target that this thread serves, and one initiator at its socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use engine::{Service, Turn};
use net::Events;
use proto::login::{Initiator, RANDOM_BYTES, Request, Security, Session};
use proto::params::Wishes;
use wire::iscsi::{BHS_LEN, Bhs, Lun, Pdu, ScsiCommand, TaskAttribute, padding};
use wire::scsi::{BlockForm, Cdb};

use super::*;
use crate::lun::LunSpec;
use crate::serve::{Config, InitiatorRights, LunSet, Target};

const IQN: &str = "iqn.2026-11.org.example:disk";
const BLOCK_BYTES: u32 = 512;
/// Time after which an answer is missing.
const PATIENCE: Duration = Duration::from_secs(8);

struct Scene {
    target: Target,
    peer: TcpStream,
    /// Bytes of the target that are no whole PDU yet.
    received: Vec<u8>,
    cmd_sn: u32,
}

impl Scene {
    /// A session with a target of these LUNs, the first of which is number 0.
    fn new(luns: &[&str]) -> Scene {
        let specs = luns.iter().map(|spec| spec.parse::<LunSpec>().unwrap());
        let config = Config {
            listen: vec![([127, 0, 0, 1], 0).into()],
            advertise: Vec::new(),
            iqn: IQN.to_owned(),
            luns: LunSet { specs: (0..).zip(specs).collect(), ..LunSet::default() },
            chap: None,
            initiators: InitiatorRights::default(),
            digests: &[Digest::None],
            congestion: engine::CongestionControl::Host,
            policy: control::Choice::default(),
            pacing: engine::Pacing::Follow,
            weights: Default::default(),
            compat: crate::Compat::default(),
            window: None,
            trace: None,
            sampling: Default::default(),
        };
        let target = Target::start(&config).unwrap();
        let peer = TcpStream::connect(target.addresses().unwrap()[0]).unwrap();
        peer.set_nonblocking(true).unwrap();
        let mut scene = Scene { target, peer, received: Vec::new(), cmd_sn: 0 };
        let request = Request {
            session: Session::Normal { target_name: IQN.to_owned() },
            initiator_name: "iqn.2026-11.org.example:me".to_owned(),
            initiator_alias: None,
            isid: [0x80, 0, 0, 0, 0, 1],
            cid: 0,
            wishes: Wishes::default(),
            security: Security::Skip,
            private_key: false,
        };
        let mut login = Initiator::with_random(request, [0; RANDOM_BYTES]);
        while let Some((request, text)) = login.poll_transmit() {
            scene.send(request, &text);
            let (Pdu::LoginResponse(response), text) = scene.receive() else { panic!("it is no login") };
            login.handle_response(&response, &text).unwrap();
        }
        scene.cmd_sn = login.outcome().expect("a session").cmd_sn;
        for lun in 0..luns.len() as u16 {
            // Hears of the LUN's beginning.
            scene.command(lun, Cdb::TestUnitReady, &[], 0);
        }
        scene
    }

    /// Sends a PDU that fits into the socket's buffer.
    fn send(&mut self, pdu: impl Into<Pdu>, data: &[u8]) {
        let mut bytes = vec![0; BHS_LEN];
        pdu.into().emit((&mut bytes[..]).try_into().expect("a header"));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len()), 0);
        self.peer.write_all(&bytes).unwrap();
    }

    /// Serves until the next PDU of the target is there.
    fn receive(&mut self) -> (Pdu, Vec<u8>) {
        let (begun, mut events) = (clock::now(), Events::new());
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            let now = clock::now();
            assert!(now.since(begun) < PATIENCE, "the target does not answer");
            let timeout = match self.target.turn(now).unwrap() {
                Turn::Again => Duration::ZERO,
                Turn::Stop => panic!("the target ends"),
                Turn::Wait | Turn::WaitUntil(_) => Duration::from_millis(1),
            };
            self.target.poll().wait(&mut events, timeout.into()).unwrap();
            for ready in events.iter() {
                self.target.ready(ready, now).unwrap();
            }
            let mut chunk = [0; 4096];
            while let Ok(len) = self.peer.read(&mut chunk) {
                assert!(len > 0, "the target closes the connection");
                self.received.extend_from_slice(&chunk[..len]);
            }
        }
    }

    fn take(&mut self) -> Option<(Pdu, Vec<u8>)> {
        let header: &[u8; BHS_LEN] = self.received.first_chunk()?;
        let (pdu, len) = (Pdu::parse(header).expect("a PDU"), Bhs::new(header).data_segment_len());
        let end = BHS_LEN + len + padding(len);
        let data = self.received.get(BHS_LEN..end)?[..len].to_vec();
        self.received.drain(..end);
        Some((pdu, data))
    }

    /// Sends a command with immediate data, and returns its status and the data that it reads.
    fn command(&mut self, lun: u16, cdb: Cdb, data: &[u8], read_bytes: u32) -> (u8, Vec<u8>) {
        let itt = self.cmd_sn;
        let command = ScsiCommand {
            immediate: false,
            is_final: true,
            read: read_bytes > 0,
            write: !data.is_empty(),
            attribute: TaskAttribute::Simple,
            ahs_len: 0,
            data_segment_len: data.len() as u32,
            lun: Lun::from_number(lun),
            itt,
            expected_data_transfer_len: read_bytes.max(data.len() as u32),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: 0,
            cdb: cdb.emit(),
        };
        self.cmd_sn += 1;
        self.send(command, data);
        let mut found = Vec::new();
        loop {
            let (pdu, data) = self.receive();
            assert_eq!(pdu.itt(), itt, "{pdu:?}");
            match pdu {
                Pdu::ScsiResponse(response) => return (response.status, found),
                Pdu::DataIn(part) => {
                    found.extend(data);
                    if let Some(status) = part.status {
                        return (status, found);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn read(&mut self, lun: u16, lba: u64, blocks: u32) -> Vec<u8> {
        let cdb = Cdb::Read { form: BlockForm::Ten, lba, blocks, dpo: false, fua: false };
        let (status, data) = self.command(lun, cdb, &[], blocks * BLOCK_BYTES);
        assert_eq!((status, data.len()), (0, (blocks * BLOCK_BYTES) as usize));
        data
    }
}

/// Runs a test with a LUN that the loop serves itself, and one that workers serve.
fn with_both(test: impl Fn(&mut Scene, u16)) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let mut scene = Scene::new(&["memory:1MiB", &format!("file:{}", file.path().display())]);
    [0, 1].into_iter().for_each(|lun| test(&mut scene, lun));
}

#[test]
fn a_write_is_answered_when_it_is_stored() {
    with_both(|scene, lun| {
        let data: Vec<u8> = (0..4096_u32).map(|n| (n / 7) as u8).collect();
        for fua in [false, true] {
            let cdb = Cdb::Write { form: BlockForm::Ten, lba: 9, blocks: 8, dpo: false, fua };
            assert_eq!(scene.command(lun, cdb, &data, 0), (0, Vec::new()), "LUN {lun}");
            assert!(scene.read(lun, 9, 8) == data, "LUN {lun}");
        }
        let flush = Cdb::SynchronizeCache { form: BlockForm::Ten, lba: 0, blocks: 0, immed: false };
        assert_eq!(scene.command(lun, flush, &[], 0), (0, Vec::new()), "LUN {lun}");
    });
}

#[test]
fn a_command_is_carried_out_with_the_parameters_that_come_with_it() {
    with_both(|scene, lun| {
        let (form, blocks) = (BlockForm::Sixteen, 100);
        let same = Cdb::WriteSame { form, lba: 3, blocks, unmap: false, no_data: false };
        assert_eq!(scene.command(lun, same, &[7; BLOCK_BYTES as usize], 0), (0, Vec::new()));
        let mut expected = vec![7; 100 * BLOCK_BYTES as usize];
        assert!(scene.read(lun, 3, blocks) == expected, "LUN {lun}");
        // Two bytes of length each, and a descriptor of ten blocks from block 5 on.
        let mut list = [0; 24];
        (list[1], list[3], list[15], list[19]) = (22, 16, 5, 10);
        let unmap = Cdb::Unmap { list_len: list.len() as u16 };
        assert_eq!(scene.command(lun, unmap, &list, 0), (0, Vec::new()), "LUN {lun}");
        expected[2 * BLOCK_BYTES as usize..][..10 * BLOCK_BYTES as usize].fill(0);
        assert!(scene.read(lun, 3, blocks) == expected, "LUN {lun}");
        // The command expects other contents of block 3.
        let compare = Cdb::CompareAndWrite { lba: 3, blocks: 1, dpo: false, fua: false };
        assert_eq!(scene.command(lun, compare, &[8; 2 * BLOCK_BYTES as usize], 0).0, 2, "LUN {lun}");
        assert!(scene.read(lun, 3, blocks) == expected, "LUN {lun}");
    });
}

#[test]
fn a_connection_is_read_while_its_session_may_be_and_it_does_not_end() {
    let mut scene = Scene::new(&["memory:1MiB"]);
    let Target { clients, sides, shared, .. } = &mut scene.target;
    let (_, client) = clients.iter_mut().next().expect("one connection");
    let (_, side) = sides.iter_mut().next().expect("one session");
    let (link, kept) = (&mut client.link, side.register_version);
    assert!(link.may_read(sides, shared));
    // The nexus is not in the register yet.
    sides.iter_mut().for_each(|(_, side)| side.register_version = kept + 1);
    shared.admission.register_version = kept;
    assert!(!link.may_read(sides, shared));
    shared.admission.register_version = kept + 1;
    assert!(link.may_read(sides, shared));
    link.end = Some(End::LoggedOut);
    assert!(!link.may_read(sides, shared), "it only waits until its answer is sent");
}
