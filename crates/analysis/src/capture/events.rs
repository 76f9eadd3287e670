//! Events of all connections of a capture, the same kinds together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dissect::{ConnectionEvent, Dissection, EventSummary, OutstandingSummary};
use serde::Serialize;

/// Events of one kind in a capture. Times are in seconds since its first packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaptureEvent {
    /// Kind and codes.
    #[serde(flatten)]
    pub event: ConnectionEvent,
    /// Name with the words of the standards.
    pub name: String,
    /// `initiator` or `target`, as in [`EventSummary::side`].
    pub side: Option<&'static str>,
    /// Address, as in [`EventSummary::address`].
    pub address: Option<String>,
    /// Number of events.
    pub count: u64,
    /// Connections with such events.
    pub connections: u64,
    /// Time of the first one.
    pub first_s: f64,
    /// Time of the last one.
    pub last_s: f64,
    /// First event of the kind.
    pub example: EventExample,
    /// Commands outstanding at refusals.
    pub outstanding: Option<OutstandingSummary>,
}

/// Place of one event.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EventExample {
    /// Number of its connection, from 1.
    pub connection: u64,
    /// Address of its side.
    pub from: String,
    /// Number of its packet in the file.
    pub packet: u64,
    /// Time of that packet.
    pub t_s: f64,
    /// Initiator task tag.
    pub itt: Option<u32>,
}

/// Events of all connections in the order of their first ones.
pub(super) fn all(capture: &Dissection) -> Vec<CaptureEvent> {
    let mut all: Vec<CaptureEvent> = Vec::new();
    let mut places = HashMap::new();
    for (connection, summary) in (1..).zip(&capture.connections) {
        for event in &summary.events {
            match places.entry((event.event, event.side, &event.address)) {
                Entry::Occupied(place) => {
                    let known: &mut CaptureEvent = &mut all[*place.get()];
                    known.add(connection, event);
                }
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    all.push(CaptureEvent::new(connection, event));
                }
            }
        }
    }
    all.sort_by(|one, other| one.first_s.total_cmp(&other.first_s));
    all
}

impl CaptureEvent {
    fn new(connection: u64, event: &EventSummary) -> Self {
        Self {
            event: event.event,
            name: event.name.clone(),
            side: event.side,
            address: event.address.clone(),
            count: event.count,
            connections: 1,
            first_s: event.first_s,
            last_s: event.last_s,
            example: EventExample {
                connection,
                from: event.from.clone(),
                packet: event.packet,
                t_s: event.first_s,
                itt: event.itt,
            },
            outstanding: event.outstanding,
        }
    }

    /// Adds the same kind of another connection.
    fn add(&mut self, connection: u64, event: &EventSummary) {
        self.outstanding = match (self.outstanding, event.outstanding) {
            (Some(one), Some(other)) => Some(OutstandingSummary {
                least: one.least.min(other.least),
                mean: (one.mean * self.count as f64 + other.mean * event.count as f64)
                    / (self.count + event.count) as f64,
                most: one.most.max(other.most),
            }),
            (one, other) => one.or(other),
        };
        if event.first_s < self.first_s {
            self.example = Self::new(connection, event).example;
        }
        self.count += event.count;
        self.connections += 1;
        self.first_s = self.first_s.min(event.first_s);
        self.last_s = self.last_s.max(event.last_s);
    }
}
