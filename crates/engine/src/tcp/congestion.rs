//! Congestion control of a socket: the user's setting, the policy's decision in force, and the memory of routes that the
//! connections of one loop share.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::rc::Rc;
use std::str::FromStr;

use control::{Remembered, Route, Routes};
use event::{CongestionChoice, CongestionDecision, Instant, LossReason, MayChange};
use net::congestion::{self, Availability, BBR, Refusal};

/// Setting of the congestion control of connections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CongestionControl {
    /// The host's; a rate-based one while packets are lost without a queue.
    #[default]
    Automatic,
    /// The host's, always.
    Host,
    /// The one of this name, always.
    Named(String),
}

/// Change of a connection's congestion control, or the kernel's refusal of one. Its text is a sentence for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionChange {
    /// Name that the policy wanted.
    name: String,
    /// Name before.
    before: String,
    decision: CongestionDecision,
    peer: Option<IpAddr>,
    /// The kernel had to load its module.
    is_loaded: bool,
    refusal: Option<Refusal>,
}

/// Verdicts on routes, shared by the connections of one loop.
#[derive(Clone, Debug, Default)]
pub struct RouteMemory(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    routes: RefCell<Routes>,
    /// Users know that the kernel refuses a change.
    is_refusal_told: Cell<bool>,
}

/// Congestion control of one socket.
#[derive(Debug)]
pub(crate) struct SocketCongestion {
    /// Name of the host's.
    hosts: String,
    name: String,
    choice: CongestionChoice,
    may_change: MayChange,
    change: Option<CongestionChange>,
}

impl CongestionControl {
    /// Name to set on sockets; `None` leaves the host's.
    pub fn name(&self) -> Option<&str> {
        match self {
            CongestionControl::Automatic | CongestionControl::Host => None,
            CongestionControl::Named(name) => Some(name),
        }
    }

    /// Permission for the policy of a connection.
    pub fn may_change(&self) -> MayChange {
        match self {
            CongestionControl::Automatic => MayChange::Unasked,
            CongestionControl::Host => MayChange::Locked,
            CongestionControl::Named(_) => MayChange::Explicit,
        }
    }
}

impl FromStr for CongestionControl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<CongestionControl, Infallible> {
        Ok(match text {
            "auto" => CongestionControl::Automatic,
            "host" => CongestionControl::Host,
            name => CongestionControl::Named(name.to_owned()),
        })
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CongestionControl::Automatic => "auto",
            CongestionControl::Host => "host",
            CongestionControl::Named(name) => name,
        })
    }
}

impl RouteMemory {
    pub(crate) fn remembered(&self, route: Route, now: Instant) -> Remembered {
        self.0.routes.borrow().remembered(route, now)
    }

    /// Takes the decision of a connection. One without a reason says nothing of the route.
    pub(crate) fn note(&self, route: Route, decision: &CongestionDecision, now: Instant) {
        if decision.reason != LossReason::None {
            self.0.routes.borrow_mut().note(route, decision, now);
        }
    }

    /// Returns true for every change, and for the first refusal: one is enough for all connections.
    pub(crate) fn is_news(&self, change: &CongestionChange) -> bool {
        change.refusal.is_none() || !self.0.is_refusal_told.replace(true)
    }
}

/// The addresses of a connected socket; `None` if it is connected no more.
pub(crate) fn route_of(stream: &TcpStream) -> Option<Route> {
    let (peer, local) = (stream.peer_addr().ok()?.ip(), stream.local_addr().ok()?.ip());
    Some(Route { peer: peer.to_canonical(), local: local.to_canonical() })
}

impl SocketCongestion {
    pub(crate) fn new(stream: &TcpStream, may_change: MayChange) -> io::Result<SocketCongestion> {
        let hosts = congestion::congestion(stream)?;
        Ok(SocketCongestion {
            name: hosts.clone(),
            hosts,
            choice: CongestionChoice::Hosts,
            may_change,
            change: None,
        })
    }

    pub(crate) fn may_change(&self) -> MayChange {
        self.may_change
    }

    /// The congestion control in force is rate-based.
    pub(crate) fn paces_itself(&self) -> bool {
        congestion::is_paced_by_itself(&self.name)
    }

    /// Applies a decision.
    pub(crate) fn follow(&mut self, stream: &TcpStream, decision: &CongestionDecision) {
        let is_module = || congestion::availability(BBR) == Availability::Module;
        if let Some(change) = self.follow_with(stream, decision, (congestion::change, is_module)) {
            self.change = Some(change);
        }
    }

    /// Takes the last change, or its refusal; each is returned once.
    pub(crate) fn take_change(&mut self) -> Option<CongestionChange> {
        self.change.take()
    }

    /// Applies a decision with these calls of the kernel: the change, and the question for an unloaded module. Returns
    /// the change, or its refusal.
    fn follow_with(
        &mut self,
        stream: &TcpStream,
        decision: &CongestionDecision,
        (change, is_module): (impl FnOnce(&TcpStream, &str) -> Result<(), Refusal>, impl FnOnce() -> bool),
    ) -> Option<CongestionChange> {
        if decision.choice == self.choice || !matches!(self.may_change, MayChange::Unasked | MayChange::Yes) {
            return None;
        }
        let (name, is_loaded) = match decision.choice {
            CongestionChoice::RateBased => {
                (BBR.to_owned(), self.may_change == MayChange::Unasked && is_module())
            }
            CongestionChoice::Hosts => (self.hosts.clone(), false),
        };
        let refusal = change(stream, &name).err();
        let before = self.name.clone();
        match refusal {
            None => {
                (self.may_change, self.choice) = (MayChange::Yes, decision.choice);
                self.name.clone_from(&name);
            }
            Some(_) => self.may_change = MayChange::Denied,
        }
        let peer = stream.peer_addr().ok().map(|peer| peer.ip());
        Some(CongestionChange { name, before, decision: *decision, peer, is_loaded, refusal })
    }
}

impl fmt::Display for CongestionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CongestionChange { name, before, decision, .. } = self;
        let percent = f64::from(decision.share_ppm) / 1e4;
        if let Some(refusal) = self.refusal {
            let advice = refusal.explain(name, self.peer);
            return write!(
                f,
                "packets are lost without a queue, and {before} slows down for each of them; {advice}"
            );
        }
        let loads = if self.is_loaded { ", whose module was loaded for it" } else { "" };
        match decision.reason {
            LossReason::RandomLoss => write!(
                f,
                "sends with {name} instead of {before}{loads}: {percent:.2} % of the packets are lost without a queue; \
                 --cc host forbids the change"
            ),
            LossReason::Remembered => write!(
                f,
                "sends with {name} instead of {before}{loads}: connections of this route lost {percent:.2} % of their \
                 packets without a queue; --cc host forbids the change"
            ),
            LossReason::CongestionLoss => write!(f, "sends with {name} again: packets are lost with a queue"),
            LossReason::NoGain => write!(f, "sends with {name} again: {before} carried no more"),
            LossReason::MoreLoss => write!(f, "sends with {name} again: {before} lost more packets"),
            LossReason::None | LossReason::NotPermitted => write!(f, "sends with {name} instead of {before}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const RANDOM: CongestionDecision = CongestionDecision {
        choice: CongestionChoice::RateBased,
        reason: LossReason::RandomLoss,
        restarts: 0,
        share_ppm: 1_234,
    };
    const BACK: CongestionDecision =
        CongestionDecision { choice: CongestionChoice::Hosts, reason: LossReason::CongestionLoss, ..RANDOM };

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (stream, listener.accept().unwrap().0)
    }

    /// A socket whose host has CUBIC.
    fn socket(stream: &TcpStream, may_change: MayChange) -> SocketCongestion {
        let congestion = SocketCongestion::new(stream, may_change).unwrap();
        SocketCongestion { hosts: "cubic".to_owned(), name: "cubic".to_owned(), ..congestion }
    }

    #[test]
    fn a_decision_is_applied_once_and_taken_back() {
        let (stream, _peer) = pair();
        let mut congestion = socket(&stream, MayChange::Unasked);
        let mut names = Vec::new();
        let mut follow = |congestion: &mut SocketCongestion, decision| {
            let change = |_: &TcpStream, name: &str| {
                names.push(name.to_owned());
                Ok(())
            };
            congestion.follow_with(&stream, decision, (change, || true)).map(|change| change.to_string())
        };
        assert_eq!(follow(&mut congestion, &CongestionDecision::HOSTS), None);
        let said = follow(&mut congestion, &RANDOM).unwrap();
        assert!(said.contains("bbr instead of cubic, whose module was loaded for it: 0.12 %"), "{said}");
        assert!(congestion.paces_itself() && congestion.may_change() == MayChange::Yes);
        assert_eq!(follow(&mut congestion, &RANDOM), None);
        let said = follow(&mut congestion, &BACK).unwrap();
        assert_eq!(said, "sends with cubic again: packets are lost with a queue");
        assert!(!congestion.paces_itself());
        assert_eq!(names, ["bbr", "cubic"]);
    }

    #[test]
    fn a_refusal_is_told_once_with_the_setting_that_allows_it() {
        let (stream, _peer) = pair();
        let mut congestion = socket(&stream, MayChange::Unasked);
        let mut follow = |change: &dyn Fn() -> Result<(), Refusal>| {
            congestion.follow_with(&stream, &RANDOM, (|_: &TcpStream, _: &str| change(), || false))
        };
        let told = follow(&|| Err(Refusal::NotAllowed)).unwrap();
        let memory = RouteMemory::default();
        assert_eq!([&told, &told].map(|told| memory.is_news(told)), [true, false]);
        assert!(told.to_string().contains("sysctl -w net.ipv4.tcp_allowed_congestion_control"), "{told}");
        assert_eq!(follow(&|| panic!("asked again")), None);
        assert!(congestion.may_change() == MayChange::Denied && !congestion.paces_itself());
    }

    #[test]
    fn the_users_choice_is_not_changed() {
        let (stream, _peer) = pair();
        for text in ["host", "cubic"] {
            let setting: CongestionControl = text.parse().unwrap();
            assert_eq!(setting.to_string(), text);
            let mut congestion = socket(&stream, setting.may_change());
            let change = |_: &TcpStream, _: &str| panic!("changed");
            assert_eq!(congestion.follow_with(&stream, &RANDOM, (change, || false)), None, "{text}");
        }
        assert_eq!("auto".parse(), Ok(CongestionControl::Automatic));
        assert_eq!(CongestionControl::Named("cubic".to_owned()).name(), Some("cubic"));
        assert_eq!(CongestionControl::Host.name(), None);
    }

    #[test]
    fn connections_of_one_route_share_their_verdict() {
        let ((one, _peer), (other, _its)) = (pair(), pair());
        let [one, other] = [&one, &other].map(|stream| route_of(stream).unwrap());
        let (memory, now) = (RouteMemory::default(), Instant::from_nanos(5_000_000_000));
        memory.note(other, &CongestionDecision::HOSTS, now);
        assert_eq!(memory.remembered(one, now), Remembered::Nothing);
        memory.clone().note(other, &RANDOM, now);
        assert_eq!(memory.remembered(one, now), Remembered::Random { share_ppm: 1_234 });
    }
}
