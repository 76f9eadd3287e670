//! Activity of block devices while requests were in the store.

use analysis::Repeat;
use analysis::layers::DeviceFlight;

use crate::format::{duration, fixed, plain};

/// One sentence for each device, beside the store's time; `op` is the operation of the load.
pub(super) fn sentences(repeat: &Repeat, op: &str) -> Vec<String> {
    let layer = repeat.stack.as_ref().and_then(|stack| stack.all.iter().find(|layer| layer.name == "store"));
    let Some((store, spent)) = layer.and_then(|layer| Some((&layer.flight, layer.residence?))) else {
        return Vec::new();
    };
    let sentence = |DeviceFlight { device: (major, minor), flight, residence }: &DeviceFlight| {
        Some(format!(
            "Below the store: block device {major}:{minor} did {} {op}s in the window, of all programs, {} each, \
             {} inside on average. The store did {}, {} each, {} inside.",
            fixed(flight.completed as f64, 0),
            duration((*residence)?.mean_s),
            plain(flight.mean),
            fixed(store.completed as f64, 0),
            duration(spent.mean_s),
            plain(store.mean),
        ))
    };
    repeat.devices.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use analysis::layers::{Flight, LayerFlight, Residence, Stack};

    use super::*;

    #[test]
    fn a_device_is_told_of_beside_the_store() {
        let flight = |completed, mean| Flight { completed, mean, ..Flight::default() };
        let spent = |mean_s| Some(Residence { mean_s, ..Residence::default() });
        let store = LayerFlight {
            name: "store",
            flight: flight(100, 0.2),
            residence: spent(2e-3),
            one_in: 1.0,
            is_whole: true,
            unended: 0,
            alone: 0,
        };
        let device = DeviceFlight { device: (254, 1), flight: flight(120, 0.15), residence: spent(1.5e-3) };
        let stack = Stack { all: vec![store], ..Stack::default() };
        let mut repeat = Repeat { stack: Some(stack), devices: vec![device], ..Repeat::default() };
        let told = sentences(&repeat, "read")[0].replace('\u{202f}', " ");
        for words in ["254:1 did 120 reads", "1.5 ms each, 0.150 inside", "did 100, 2 ms each, 0.200 inside"]
        {
            assert!(told.contains(words), "{words}: {told}");
        }
        repeat.stack = None;
        assert!(sentences(&repeat, "read").is_empty(), "memory has no store");
    }
}
