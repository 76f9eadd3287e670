//! Survey of a portal: its targets, and the LUNs of each.

use std::net::Ipv6Addr;

use proto::discovery::{self, Collector, Discovered, DiscoveredTarget};
use proto::login::{Session, Status};
use wire::iscsi::login_status;
use wire::scsi::StandardInquiry;

use crate::client::Client;
use crate::client::opening;
use crate::disk::{capacity, destination, inquire, is_disk, is_write_protected, optional, report_luns};
use crate::error::{Error, device_type_text};
use crate::options::Options;
use crate::tables::Tables;
use crate::url::Url;

/// Maximum number of further portals at which a target is tried: each may be silent until the timeout.
const PORTALS_MAX: usize = 4;

/// LUNs of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// URL at which the target was found.
    pub url: Url,
    /// LUNs in the order of REPORT LUNS.
    pub luns: Vec<FoundLun>,
}

/// A LUN of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLun {
    /// LUN number.
    pub number: u16,
    /// Size in bytes; `None` for other devices than disks, and for an unknown size.
    pub bytes: Option<u64>,
    /// Peripheral device type (SPC-5 table 147), if known.
    pub device_type: Option<u8>,
    /// The LUN is write-protected.
    pub is_write_protected: bool,
}

impl FoundLun {
    /// Kind of the device in words, such as `disk`.
    pub fn kind(&self) -> &'static str {
        match self.device_type {
            None => "unknown",
            Some(code) if is_disk(code) => "disk",
            Some(code) => device_type_text(code),
        }
    }
}

/// Returns the targets of a portal by SendTargets.
pub fn discover(url: &Url, options: &Options) -> Result<Vec<DiscoveredTarget>, Error> {
    let mut client = log_in(Session::Discovery, url, options)?;
    let text = client.text(discovery::request())?;
    client.close()?;
    let mut collector = Collector::default();
    collector.push(&text)?;
    let Discovered { targets, unreadable } = collector.finish()?;
    unreadable.iter().for_each(|error| (options.notice)(&format!("{url}: {error}; it is left out")));
    Ok(targets)
}

/// LUNs of a target that the portal at `url` has reported. The target is tried at that portal first, since its reported
/// addresses may be unreachable from here, and then at its reported addresses, since a portal may report targets of
/// other portals.
pub fn luns(url: &Url, target: &DiscoveredTarget, options: &Options) -> Result<Found, Error> {
    let here = Url { target: Some(target.name.clone()), lun: None, ..url.clone() };
    let refused = match luns_at(&here, &target.name, options) {
        Err(error) if may_be_elsewhere(&error) => error,
        found => return found,
    };
    let said = target.addresses.iter();
    let said = said.map(|at| Url { host: zoned(&at.host, &url.host), port: at.port, ..here.clone() });
    let mut others = said.filter(|there| *there != here).take(PORTALS_MAX);
    others.find_map(|there| luns_at(&there, &target.name, options).ok()).ok_or(refused)
}

/// Adds the zone of the portal to a link-local address (RFC 4007 section 11.2).
fn zoned(host: &str, portal: &str) -> String {
    let is_of_link = host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unicast_link_local());
    match portal.split_once('%') {
        Some((_, zone)) if is_of_link => format!("{host}%{zone}"),
        _ => host.to_owned(),
    }
}

fn luns_at(url: &Url, target: &str, options: &Options) -> Result<Found, Error> {
    let session = Session::Normal { target_name: target.to_owned() };
    let mut client = log_in(session, url, options)?;
    let mut luns = Vec::new();
    for lun in report_luns(&mut client)? {
        client.set_lun(lun);
        luns.push(look(&mut client, lun)?);
    }
    client.close()?;
    Ok(Found { url: url.clone(), luns })
}

/// One LUN, with the size and write protection of a disk.
fn look(client: &mut Client, number: u16) -> Result<FoundLun, Error> {
    let inquiry = optional(inquire(client, None))?.and_then(|data| StandardInquiry::parse(&data).ok());
    let device_type = inquiry.map(|inquiry| inquiry.device_type);
    // A controller or an enclosure reports no meaningful capacity.
    if device_type.is_some_and(|code| !is_disk(code)) {
        return Ok(FoundLun { number, bytes: None, device_type, is_write_protected: false });
    }
    let capacity = optional(capacity(client))?;
    let bytes = capacity.map(|found| found.blocks * u64::from(found.block_len_bytes));
    Ok(FoundLun { number, bytes, device_type, is_write_protected: is_write_protected(client)? })
}

/// Returns true if the refusal suggests that the portal does not have the target; targets use different status codes.
fn may_be_elsewhere(error: &Error) -> bool {
    use login_status::{AUTHENTICATION_FAILURE, AUTHORIZATION_FAILURE};
    let Error::Login { source, .. } = error else { return false };
    let is_final = |status: Status| {
        [AUTHENTICATION_FAILURE, AUTHORIZATION_FAILURE].contains(&(status.class, status.detail))
    };
    source.refusal().is_some_and(|status| !is_final(status))
}

/// Opens a session without tables.
fn log_in(session: Session, url: &Url, options: &Options) -> Result<Client, Error> {
    let tables = Tables::create(None, Default::default())?;
    opening::session(&destination(session, url, options)?, 0, options, &tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_link_have_the_zone_of_their_portal() {
        for (host, portal, expected) in [
            ("fe80::7", "fe80::1%eth0", "fe80::7%eth0"),
            ("fe80::7", "2001:db8::1", "fe80::7"),
            ("2001:db8::7", "fe80::1%eth0", "2001:db8::7"),
            ("far.example", "fe80::1%eth0", "far.example"),
        ] {
            assert_eq!(zoned(host, portal), expected, "{host} by {portal}");
        }
    }
}
