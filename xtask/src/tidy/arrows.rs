//! Allowed dependencies between crates: the arrows of ARCHITECTURE.md, and the users of heavy or dangerous
//! dependencies.

use anyhow::{Context, Result};
use serde_json::Value;

/// Every crate of the workspace with the crates it may use. A crate that is not listed is a finding: decide its place.
const ARROWS: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("diagnosis", &["event"]),
    ("wire", &["event"]),
    ("proto", &["event", "wire"]),
    ("control", &["event"]),
    ("link", &["event", "wire"]),
    ("net", &["event"]),
    ("tables", &["event"]),
    ("block", &["event", "net"]),
    ("engine", &["event", "wire", "control", "net", "tables"]),
    ("stream", &["event", "control", "net", "tables", "engine", "diagnosis"]),
    ("iscsi_target", &["event", "wire", "proto", "control", "net", "tables", "block", "engine"]),
    ("initiator", &["event", "wire", "proto", "control", "net", "tables", "block", "engine"]),
    ("nbd", &["event", "wire", "proto", "net", "block", "engine"]),
    ("wan", &["event", "wire", "link", "net", "tables"]),
    ("capture", &["event", "wire", "net"]),
    ("dissect", &["event", "wire"]),
    ("analysis", &["event", "wire", "tables", "dissect", "diagnosis"]),
    ("report", &["event", "tables", "dissect", "diagnosis", "analysis"]),
    ("document", &["event"]),
    (
        "lab",
        &[
            "event",
            "document",
            "control",
            "link",
            "net",
            "tables",
            "block",
            "iscsi_target",
            "diagnosis",
            "analysis",
            "report",
        ],
    ),
    ("farlun", EVERYTHING),
    (
        "fuzz",
        &[
            "event",
            "wire",
            "proto",
            "net",
            "tables",
            "block",
            "engine",
            "iscsi_target",
            "capture",
            "dissect",
            "analysis",
            "document",
            "lab",
        ],
    ),
    ("sim", &["event", "wire", "proto", "control", "link"]),
    ("e2e", &[]),
    ("xtask", &["e2e", "wire"]),
];

const EVERYTHING: &[&str] = &[
    "event",
    "diagnosis",
    "wire",
    "proto",
    "control",
    "link",
    "net",
    "tables",
    "block",
    "engine",
    "stream",
    "iscsi_target",
    "initiator",
    "nbd",
    "wan",
    "capture",
    "dissect",
    "analysis",
    "report",
    "document",
    "lab",
];

/// External crates reserved for these users, and the substitute for all others.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("anyhow", &["farlun", "xtask"], "a library has an error enum of its own (`thiserror`)"),
    ("libc", &["net"], "system calls live in `net` behind a safe function"),
    ("parquet", &["tables"], "tables are read and written through `tables`"),
    ("clap", &["farlun"], "flags are parsed in the binary; libraries take plain structs"),
    ("clap_complete", &["farlun"], "completions are made from the flags, and those are in the binary"),
    ("clap_mangen", &["farlun"], "manual pages are made from the flags, and those are in the binary"),
    ("indicatif", &["farlun"], "libraries report progress as numbers; the binary draws it"),
    ("syn", &["xtask"], "sources are parsed for the house rules alone"),
    (
        "toml",
        &["document"],
        "what people write is read through `document`, which knows the place of every value",
    ),
];

/// Every arrow that points back, every reserved crate used elsewhere, every crate without the workspace's lints.
pub(super) fn findings(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let mut findings = Vec::new();
    // A workspace member has no source; everything from a registry has one.
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        let name = package["name"].as_str().context("a package without a name")?;
        let Some((_, allowed)) = ARROWS.iter().find(|(listed, _)| *listed == name) else {
            findings.push(format!(
                "crate `{name}` is in no row of xtask/src/tidy/arrows.rs: decide what it may use"
            ));
            continue;
        };
        let dependencies = package["dependencies"].as_array().context("a package without dependencies")?;
        for dependency in dependencies {
            let used = dependency["name"].as_str().context("a dependency without a name")?;
            // Tests may use both ends at once: only shipped code keeps the arrows.
            let shipped = dependency["kind"] != "dev";
            findings.extend(check(name, allowed, used, shipped));
        }
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let manifest =
            std::fs::read_to_string(manifest).with_context(|| format!("cannot read {manifest}"))?;
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.push(format!(
                "crate `{name}` does not take the workspace's lints: add `[lints]\\nworkspace = true`"
            ));
        }
    }
    Ok(findings)
}

fn check(name: &str, allowed: &[&str], used: &str, shipped: bool) -> Option<String> {
    let ours = ARROWS.iter().any(|(listed, _)| *listed == used);
    if ours && shipped && !allowed.contains(&used) {
        return Some(format!(
            "crate `{name}` depends on `{used}`, it may use only {allowed:?}: move the code down, or pass what it needs in"
        ));
    }
    let (_, users, instead) = RESERVED.iter().find(|(reserved, _, _)| *reserved == used)?;
    (!users.contains(&name))
        .then(|| format!("crate `{name}` depends on `{used}`, reserved for {users:?}: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(check("iscsi_target", &["event", "engine"], "engine", true), None);
        assert_eq!(check("iscsi_target", &["event"], "serde", true), None);
        assert_eq!(check("iscsi_target", &["event"], "initiator", false), None, "tests may use both ends");
        assert!(check("engine", &["event"], "iscsi_target", true).is_some());
        assert!(check("iscsi_target", &["event"], "anyhow", true).is_some());
        assert!(check("wan", &["event"], "libc", false).is_some(), "not in tests either");
    }

    #[test]
    fn the_table_itself_has_no_arrow_that_points_back() {
        for (row, (name, allowed)) in ARROWS.iter().enumerate() {
            for used in *allowed {
                let place = ARROWS.iter().position(|(listed, _)| listed == used);
                assert!(
                    place.is_some_and(|place| place < row),
                    "`{name}` uses `{used}`, which stands below it"
                );
            }
        }
    }
}
