//! Keys of a login whose values both sides determine: RFC 7143 section 13. A key is agreed on if both sides were seen to say
//! it, and its value is that of the answer.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::iscsi::role::Role;

/// Values of login keys, those that are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LoginParameters {
    /// ImmediateData.
    pub immediate_data: Option<bool>,
    /// InitialR2T.
    pub initial_r2t: Option<bool>,
    /// FirstBurstLength in bytes.
    pub first_burst_bytes: Option<u64>,
    /// MaxBurstLength in bytes.
    pub max_burst_bytes: Option<u64>,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: Option<u64>,
}

impl LoginParameters {
    /// Default values of RFC 7143 section 13.
    const DEFAULTS: Self = Self {
        immediate_data: Some(true),
        initial_r2t: Some(true),
        first_burst_bytes: Some(65_536),
        max_burst_bytes: Some(262_144),
        max_outstanding_r2t: Some(1),
    };

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Values of both, those of `self` first.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            immediate_data: self.immediate_data.or(other.immediate_data),
            initial_r2t: self.initial_r2t.or(other.initial_r2t),
            first_burst_bytes: self.first_burst_bytes.or(other.first_burst_bytes),
            max_burst_bytes: self.max_burst_bytes.or(other.max_burst_bytes),
            max_outstanding_r2t: self.max_outstanding_r2t.or(other.max_outstanding_r2t),
        }
    }

    /// Values that `other` has no value for.
    fn without(self, other: Self) -> Self {
        Self {
            immediate_data: self.immediate_data.filter(|_| other.immediate_data.is_none()),
            initial_r2t: self.initial_r2t.filter(|_| other.initial_r2t.is_none()),
            first_burst_bytes: self.first_burst_bytes.filter(|_| other.first_burst_bytes.is_none()),
            max_burst_bytes: self.max_burst_bytes.filter(|_| other.max_burst_bytes.is_none()),
            max_outstanding_r2t: self.max_outstanding_r2t.filter(|_| other.max_outstanding_r2t.is_none()),
        }
    }
}

/// Result of a negotiation, as far as the capture has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Negotiation {
    /// Values of the keys that both sides were seen to say.
    pub agreed: Option<LoginParameters>,
    /// Values that the initiator was seen to offer, without an answer in the capture.
    pub offered: Option<LoginParameters>,
    /// Values that hold by RFC 7143: the whole text of both sides is in the capture, and these keys were not agreed on.
    pub defaults: Option<LoginParameters>,
    /// MaxRecvDataSegmentLength that the initiator, and the target, was seen to declare, in bytes.
    pub segment_bytes: [Option<u64>; 2],
}

impl Negotiation {
    /// Values that hold, as far as known.
    pub fn in_force(&self) -> LoginParameters {
        self.agreed.unwrap_or_default().or(self.defaults.unwrap_or_default())
    }
}

/// Keys in a login's text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys {
    keys: [Key; 5],
    segment_bytes: [Option<u64>; 2],
}

/// One key.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    /// The initiator, and the target, has said it.
    said: [bool; 2],
    /// Value that the initiator offered.
    offer: Option<u64>,
    /// Last value; `None` for one that is invalid, as "Reject" and "Irrelevant" are.
    last: Option<u64>,
}

/// Names of the keys in the order of [`Keys::keys`].
const NAMES: [&str; 5] =
    ["ImmediateData", "InitialR2T", "FirstBurstLength", "MaxBurstLength", "MaxOutstandingR2T"];
const BURST: RangeInclusive<u64> = 512..=0xff_ffff;
const R2TS: RangeInclusive<u64> = 1..=0xffff;

impl Keys {
    /// Takes a key of `sender`.
    pub(super) fn take(&mut self, sender: Role, name: &str, value: &str) {
        let side = usize::from(sender == Role::Target);
        if name == "MaxRecvDataSegmentLength" {
            self.segment_bytes[side] = number(value, BURST).or(self.segment_bytes[side]);
        }
        let Some(place) = NAMES.iter().position(|known| *known == name) else { return };
        let value = match place {
            0 | 1 => truth(value),
            2 | 3 => number(value, BURST),
            _ => number(value, R2TS),
        };
        let key = &mut self.keys[place];
        key.said[side] = true;
        key.last = value;
        if side == 0 {
            key.offer = value;
        }
    }

    /// Result; `is_whole` if all text of both sides is in the capture, and the target has accepted the login.
    pub(super) fn result(&self, is_whole: bool) -> Negotiation {
        let parameters = |pick: fn(&Key) -> Option<u64>| {
            let [immediate_data, initial_r2t, first_burst, max_burst, max_r2t] =
                self.keys.each_ref().map(pick);
            LoginParameters {
                immediate_data: immediate_data.map(|value| value == 1),
                initial_r2t: initial_r2t.map(|value| value == 1),
                first_burst_bytes: first_burst,
                max_burst_bytes: max_burst,
                max_outstanding_r2t: max_r2t,
            }
        };
        let some = |parameters: LoginParameters| Some(parameters).filter(|found| !found.is_empty());
        let agreed = parameters(|key| key.last.filter(|_| key.said == [true; 2]));
        Negotiation {
            agreed: some(agreed),
            offered: some(parameters(|key| key.offer.filter(|_| key.said == [true, false]))),
            defaults: some(LoginParameters::DEFAULTS.without(agreed)).filter(|_| is_whole),
            segment_bytes: self.segment_bytes,
        }
    }
}

fn truth(value: &str) -> Option<u64> {
    match value {
        "Yes" => Some(1),
        "No" => Some(0),
        _ => None,
    }
}

/// A numerical value in decimal or hexadecimal digits: RFC 7143 section 6.1.
fn number(value: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let hexadecimal = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let number = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.ok().filter(|number| range.contains(number))
}
