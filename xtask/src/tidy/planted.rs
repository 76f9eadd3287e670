//! Every source folder of every crate is read: a fault planted into a copy of the tree's layout is reported there.
//!
//! The copy has the folders and the target roots of the workspace, with files of its own; the checkout is not touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::ratchet::{Measurements, Table};
use super::tree::{self, Member, Tree, parent};
use super::{in_sources, workspace};

/// Lines of a planted file: more than any file may have.
const LINES: usize = 601;

#[test]
fn a_fault_planted_in_any_folder_is_reported() {
    let metadata = workspace::metadata().expect("cargo metadata runs here");
    let members = tree::members(&metadata).expect("members with paths");
    let copy = tempfile::tempdir().expect("a temporary folder");
    let folders: Vec<(String, String)> = members.iter().flat_map(source_folders).collect();
    for member in &members {
        let found = folders.iter().filter(|(_, owner)| *owner == member.name).count();
        assert!(found > 1, "`{}` has a folder with sources and one made here", member.name);
    }
    for (folder, _) in &folders {
        write(copy.path(), &format!("{folder}/planted.rs"), &fault());
    }
    // Roots that reach two files which name each other.
    for root in members.iter().flat_map(|member| &member.roots) {
        let folder = parent(root);
        write(copy.path(), root, "//! Root.\nmod planted_a;\nmod planted_b;\n");
        write(copy.path(), &format!("{folder}/planted_a.rs"), "//! A.\npub struct A(super::planted_b::B);\n");
        write(copy.path(), &format!("{folder}/planted_b.rs"), "//! B.\npub struct B(super::planted_a::A);\n");
    }
    for page in ["ARCHITECTURE.md", "README.md", "docs/page.md"] {
        write(copy.path(), page, "A page.\n");
    }
    // A build folder holds sources that cargo made.
    let build = format!("{}/target", members[0].folder);
    write(copy.path(), &format!("{build}/debug/CACHEDIR.TAG"), "");
    write(copy.path(), &format!("{build}/debug/made.rs"), &fault());

    let tree = Tree::read(copy.path(), members.clone()).expect("a readable copy");
    let (findings, measurements) = in_sources(&tree, &Table::default());
    for (folder, owner) in &folders {
        let path = format!("{folder}/planted.rs");
        let found: Vec<_> =
            findings.iter().filter(|finding| finding.starts_with(&format!("{path}:"))).collect();
        // Without a purpose, too long, and a word that is banned.
        assert_eq!(found.len(), 3, "{path}: {found:?}");
        for rule in ["long-files", "wide-structs", "doc-openings", "word-density"] {
            let places = places(&measurements, rule, owner);
            assert!(places.iter().any(|place| place.starts_with(&path)), "{rule} in {path}: {places:?}");
        }
    }
    for member in &members {
        let cycles = places(&measurements, "cycles", &member.name).join("\n");
        for root in &member.roots {
            let cyclic = format!("{}/planted_a.rs \u{2192} ", parent(root));
            assert!(cycles.contains(&cyclic), "no cycle below {root}: {cycles}");
        }
    }
    assert!(findings.iter().all(|finding| !finding.contains("made.rs")), "a build folder was read");
}

/// Source that breaks a rule of each kind.
fn fault() -> String {
    let fields: String = (0..16).map(|number| format!("    f{number}: u8,\n")).collect();
    let text =
        format!("/// What is planted.\nstruct Planted {{\n{fields}}}\n// {}: later\n", concat!("TO", "DO"));
    let missing = LINES - text.lines().count();
    text + &"// what\n".repeat(missing)
}

/// The places of a rule in a crate.
fn places(measurements: &Measurements, rule: &str, owner: &str) -> Vec<String> {
    let by_name: BTreeMap<(&str, &str), &Vec<String>> = measurements
        .iter()
        .map(|((rule, owner), measured)| ((rule.name(), owner.as_str()), &measured.places))
        .collect();
    by_name.get(&(rule, owner)).map(|places| (*places).clone()).unwrap_or_default()
}

/// The folders with sources of a member, and one called `target`; the name of the member with each.
///
/// A walk of its own: that of `tree` is under test.
fn source_folders(member: &Member) -> Vec<(String, String)> {
    let mut folders = vec![format!("{}/src/target", member.folder)];
    let mut left = vec![PathBuf::from(&member.folder)];
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(workspace::root().join(&folder)).expect("a folder of a member");
        let names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        if names.iter().any(|name| name == "CACHEDIR.TAG") {
            continue;
        }
        if names.iter().any(|name| name.ends_with(".rs")) {
            folders.push(folder.to_string_lossy().into_owned());
        }
        let below = names.iter().map(|name| folder.join(name));
        left.extend(below.filter(|path| workspace::root().join(path).is_dir()));
    }
    folders.sort();
    folders.dedup();
    folders.into_iter().map(|folder| (folder, member.name.clone())).collect()
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder around the file")).expect("a writable copy");
    fs::write(path, text).expect("a writable copy");
}
