//! `farlun serve-nbd`: one device as an NBD export.

mod args;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use event::Bytes;
use iscsi_target::lun::LunSpec;
use nbd::{NbdService, NbdServiceConfig, NbdServiceError};
use net::{EndSignals, clock};
use serde_json::json;

use super::target::addresses;
use crate::device;
use crate::exit::{DONE, Exit};

pub(crate) use args::ServeNbdArgs;

/// The port that NBD has at IANA.
const NBD_PORT: u16 = 10_809;

pub(crate) fn run(args: ServeNbdArgs) -> anyhow::Result<u8> {
    let spec: LunSpec = args.spec.parse().map_err(Exit::usage)?;
    if let Some(name) = device::lun_option(&spec.options) {
        return Err(Exit::usage(format!(
            "in '{}': '{name}' is for LUNs of 'farlun target'; leave it out",
            args.spec
        )));
    }
    let listen = listening(&args)?;
    // Before the threads of the device begin.
    let signals = EndSignals::take_over()?;
    let mut spec = spec;
    spec.options.read_only |= args.read_only;
    let opened = device::open(&spec).with_context(|| args.spec.clone())?;
    let profile = opened.device.profile().clone();
    let sockets: Vec<String> = args.sockets.iter().map(|path| path.display().to_string()).collect();
    let config = NbdServiceConfig {
        command: "farlun serve-nbd",
        listen,
        sockets: args.sockets,
        export: args.export.clone(),
        description: spec.source.kind().to_owned(),
        read_only: args.read_only,
    };
    let service = NbdService::start(&config, opened.device, opened.pool, signals).map_err(unserved)?;
    let addresses: Vec<String> = service.addresses()?.iter().map(ToString::to_string).collect();
    if args.json {
        say!(
            "{}",
            json!({
                "ready": true,
                "addresses": addresses,
                "sockets": sockets,
                "export": args.export,
                "bytes": profile.len_bytes,
                "read_only": profile.can.read_only,
            })
        );
    } else {
        let what = format!("{}, {}", Bytes(profile.len_bytes), spec.source.kind());
        for address in &addresses {
            say!("ready: nbd://{address}/{} ({what})", args.export);
        }
        for path in &sockets {
            say!("ready: nbd+unix:///{}?socket={path} ({what})", args.export);
        }
    }
    let totals = service.serve()?;
    if args.json {
        say!(
            "{}",
            json!({
                "connections": totals.connections,
                "requests": totals.requests,
                "received_bytes": totals.received_bytes,
                "sent_bytes": totals.sent_bytes,
                "cpu_ns": clock::process_cpu_ns(),
            })
        );
    }
    Ok(DONE)
}

/// Addresses to listen on.
fn listening(args: &ServeNbdArgs) -> anyhow::Result<Vec<SocketAddr>> {
    let mut listen = Vec::new();
    for text in &args.listen {
        let found = addresses(text, NBD_PORT);
        listen.extend(found.map_err(|error| Exit::usage(format!("--listen {error}")))?);
    }
    if listen.is_empty() && args.sockets.is_empty() {
        listen.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NBD_PORT));
    }
    match listen.iter().find(|address| !address.ip().is_loopback()) {
        Some(open) if !args.insecure => Err(Exit::usage(format!(
            "--listen {open}: anybody who reaches this address could read and write the device, because nobody is \
             authenticated; give --insecure if that is meant, or listen on 127.0.0.1 or on --socket PATH"
        ))),
        _ => Ok(listen),
    }
}

/// Error of a service that cannot start; one that can never succeed is a usage error.
fn unserved(error: NbdServiceError) -> anyhow::Error {
    let is_usage = match &error {
        NbdServiceError::Listen { source, .. } => source.kind() == io::ErrorKind::AddrNotAvailable,
        NbdServiceError::Config(_) | NbdServiceError::Block { .. } => true,
        _ => false,
    };
    if is_usage { Exit::usage(error) } else { error.into() }
}
