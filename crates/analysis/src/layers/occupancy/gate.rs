//! Limit of parallelism: the first layer that admits fewer requests than the one above it holds.
//!
//! Two conditions must hold. The ceiling of the layer (not exceeded in 99 % of the time) is below the ceiling of the
//! layer above. And requests wait in front of it: their mean number is a fiftieth of all outstanding ones or more. The
//! first without the second is two clock readings; the second without the first is a queue that drains as fast as it
//! fills.

use super::flight::Flight;
use crate::layers::layer::{GATES, LAYERS};

/// The least share of the requests outstanding that must wait in front of a gate.
const WAITING_SHARE: f64 = 0.02;

/// The limiting layer among the given ones; `None` if no layer holds requests back: the offered load or the path is the
/// limit.
pub(in crate::layers) fn of<'a>(flight: impl Fn(&str) -> Option<&'a Flight>) -> Option<&'static str> {
    let seen = |name: &str| flight(name).filter(|f| f.issued > 0);
    // A wait counts by its cost to the caller, in whichever layer.
    let outstanding = GATES.iter().flat_map(|chain| chain.iter()).find_map(|name| seen(name))?.mean;
    for chain in GATES {
        let mut found = chain.iter().filter_map(|name| Some((*name, seen(name)?)));
        let Some((_, mut above)) = found.next() else { continue };
        for (name, here) in found {
            let waiting = above.mean - here.mean;
            if here.ceiling < above.ceiling && waiting >= WAITING_SHARE * outstanding {
                return LAYERS.iter().find(|layer| layer.name == name).map(|layer| layer.name);
            }
            above = here;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(ceiling: f64, mean: f64) -> Flight {
        Flight { issued: 1000, completed: 1000, max: ceiling, ceiling, mean, ..Flight::default() }
    }

    fn gate(levels: &[(&str, u32, f64)]) -> Option<&'static str> {
        let flights: Vec<(&str, Flight)> =
            levels.iter().map(|(n, c, m)| (*n, flight(f64::from(*c), *m))).collect();
        of(|name| flights.iter().find(|(n, _)| *n == name).map(|(_, f)| f))
    }

    #[test]
    fn the_command_window_of_the_study() {
        let levels = [
            ("call", 112, 111.9),
            ("scsi", 112, 111.9),
            ("queued", 112, 111.8),
            ("granted", 100, 99.9),
            ("started", 100, 99.8),
            ("socket", 99, 99.0),
        ];
        assert_eq!(gate(&levels), Some("granted"));
        let above =
            [("call", 160, 159.0), ("scsi", 160, 159.0), ("queued", 144, 143.0), ("granted", 144, 143.0)];
        assert_eq!(gate(&above), Some("queued"));
    }

    #[test]
    fn a_difference_that_nobody_waits_for_is_no_gate() {
        assert_eq!(gate(&[("call", 32, 31.9), ("scsi", 32, 31.9), ("queued", 31, 31.8)]), None);
        assert_eq!(gate(&[("call", 32, 31.9), ("granted", 32, 20.0)]), None);
        assert_eq!(gate(&[]), None);
    }

    #[test]
    fn the_target_may_be_it() {
        let levels = [
            ("call", 64, 63.0),
            ("queued", 64, 63.0),
            ("received", 64, 60.0),
            ("parsed", 64, 60.0),
            ("executed", 8, 8.0),
        ];
        assert_eq!(gate(&levels), Some("executed"));
    }
}
