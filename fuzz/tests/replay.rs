//! Runs every target over its corpus, and over each entry cut off and disturbed at every byte.

use std::fs;
use std::path::Path;

use fuzz::TARGETS;

/// Places of an entry at which it is cut off and disturbed.
const PLACES_MAX: usize = 1000;

#[test]
fn corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let folder = fs::read_dir(corpus.join(name)).expect("a corpus folder for every target");
        let mut entries = folder.map(|entry| entry.expect("a readable entry").path()).collect::<Vec<_>>();
        entries.sort();
        assert!(!entries.is_empty(), "no entry in the corpus of {name}");
        for entry in entries {
            let data = fs::read(&entry).expect("a readable entry");
            println!("{}", entry.display());
            target(&data);
            // Files that are long have most of their meaning in a few places: not each byte takes its turn.
            for at in (0..data.len()).step_by(1 + data.len() / PLACES_MAX) {
                target(&data[..at]);
                for disturbance in [0x01, 0x80, 0xff] {
                    let mut disturbed = data.clone();
                    disturbed[at] ^= disturbance;
                    target(&disturbed);
                }
            }
        }
    }
}

#[test]
fn every_target_has_a_binary() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let manifest = fs::read_to_string(targets.join("Cargo.toml")).expect("the manifest of the binaries");
    for (name, _) in TARGETS {
        let entry = manifest.split("\nname = ").find(|entry| entry.starts_with(&format!("\"{name}\"\n")));
        let path = entry.and_then(|entry| entry.split("path = \"").nth(1)?.split('"').next());
        assert!(targets.join(path.unwrap_or_else(|| panic!("no binary for {name}"))).is_file(), "{path:?}");
    }
}
