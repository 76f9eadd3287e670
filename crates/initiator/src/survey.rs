//! A portal looked at: the targets that it names, and the LUNs of each.

use proto::discovery::{self, Collector, DiscoveredTarget};
use proto::login::{LoginError, Session};
use wire::iscsi::login_status;

use crate::client::Client;
use crate::connect;
use crate::disk::{capacity, destination, optional, report_luns};
use crate::error::Error;
use crate::options::Options;
use crate::tables::Tables;
use crate::url::Url;

/// Portals that a target is looked for at, besides the one that was asked: each may be silent for as long as there is
/// time.
const PORTALS_MAX: usize = 4;

/// A target's LUNs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The target, where it was found.
    pub url: Url,
    /// Numbers, and sizes in bytes; `None` for those that do not say.
    pub luns: Vec<(u16, Option<u64>)>,
}

/// Asks a portal which targets it has.
pub fn discover(url: &Url, options: &Options) -> Result<Vec<DiscoveredTarget>, Error> {
    let mut client = log_in(Session::Discovery, url, options)?;
    let text = client.text(discovery::request())?;
    client.close()?;
    let mut collector = Collector::default();
    collector.push(&text)?;
    Ok(collector.finish()?)
}

/// The LUNs of a target that the portal at `url` has named. It is looked for there first, because what it is said to be
/// at need not be where we can reach it; and then where it is said to be, because a portal may name targets that are
/// at others.
pub fn luns(url: &Url, target: &DiscoveredTarget, options: &Options) -> Result<Found, Error> {
    let here = Url { target: Some(target.name.clone()), lun: None, ..url.clone() };
    let refused = match luns_at(&here, &target.name, options) {
        Err(error) if may_be_elsewhere(&error) => error,
        found => return found,
    };
    let said = target.addresses.iter();
    let said = said.map(|at| Url { host: at.host.clone(), port: at.port, ..here.clone() });
    let mut others = said.filter(|there| *there != here).take(PORTALS_MAX);
    others.find_map(|there| luns_at(&there, &target.name, options).ok()).ok_or(refused)
}

fn luns_at(url: &Url, target: &str, options: &Options) -> Result<Found, Error> {
    let session = Session::Normal { target_name: target.to_owned() };
    let mut client = log_in(session, url, options)?;
    let mut luns = Vec::new();
    for lun in report_luns(&mut client)? {
        client.set_lun(lun);
        let capacity = optional(capacity(&mut client))?;
        luns.push((lun, capacity.map(|found| found.blocks * u64::from(found.block_len_bytes))));
    }
    client.close()?;
    Ok(Found { url: url.clone(), luns })
}

/// Whether the portal does not have the target, as far as its refusal tells; the codes for that differ.
fn may_be_elsewhere(error: &Error) -> bool {
    use login_status::{AUTHENTICATION_FAILURE, AUTHORIZATION_FAILURE};
    let Error::Login { source: LoginError::Refused { status, .. }, .. } = error else { return false };
    ![AUTHENTICATION_FAILURE, AUTHORIZATION_FAILURE].contains(&(status.class, status.detail))
}

/// One session without tables.
fn log_in(session: Session, url: &Url, options: &Options) -> Result<Client, Error> {
    let tables = Tables::create(None, Default::default())?;
    connect::session(&destination(session, url, options)?, 0, options, &tables)
}
