//! Licences of the libraries in the binary, which must accompany every distribution of the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step;
use crate::workspace::cargo;

/// Beginnings of the names of files that hold a licence or a notice, in lower case.
const NAMES: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// The list of libraries, then each text once with the libraries that it is of.
pub(super) fn text(target: &str) -> Result<String> {
    let arguments = ["metadata", "--format-version", "1", "--filter-platform", target];
    let metadata = serde_json::from_str(&step::captured(&mut cargo(&arguments))?)
        .context("`cargo metadata` printed something else than JSON")?;
    let mut text = String::from("Libraries in the program farlun, with their licences.\n\n");
    let mut texts: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    for package in linked(&metadata)?.iter().filter(|package| !package["source"].is_null()) {
        let [name, version] =
            [&package["name"], &package["version"]].map(|field| field.as_str().unwrap_or("?"));
        let title = format!("{name} {version}");
        let licence = package["license"].as_str().unwrap_or("licence: see its text");
        let repository = package["repository"].as_str().unwrap_or("");
        writeln!(text, "{title}  {licence}  {repository}").context("no room for text")?;
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        for path in licence_files(Path::new(manifest).parent().context("a manifest without a folder")?)? {
            let found =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            // The same text is wrapped in several ways.
            let key = found.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.entry(key).or_insert_with(|| (Vec::new(), found)).0.push(title.clone());
        }
    }
    for (names, found) in texts.into_values() {
        write!(text, "\n{}\n{}\n\n{}\n", "-".repeat(78), names.join(", "), found.trim_end())
            .context("no room for text")?;
    }
    Ok(text)
}

/// Packages that are linked into `farlun`: reached without build or development dependencies.
fn linked(metadata: &Value) -> Result<Vec<&Value>> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("`cargo metadata` resolved nothing")?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let start = packages.iter().find(|package| package["name"] == "farlun" && package["source"].is_null());
    let start = start.and_then(|package| package["id"].as_str()).context("no package is called farlun")?;
    let (mut reached, mut open) = (BTreeSet::from([start]), vec![start]);
    while let Some(id) = open.pop() {
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            let is_linked = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            let Some(used) = dependency["pkg"].as_str().filter(|_| is_linked) else { continue };
            if reached.insert(used) {
                open.push(used);
            }
        }
    }
    let is_reached = |package: &&Value| package["id"].as_str().is_some_and(|id| reached.contains(id));
    Ok(packages.iter().filter(is_reached).collect())
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.metadata()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn linked_packages_leave_out_tests_and_build_scripts() {
        let package = |name: &str, source: Value| json!({"name": name, "id": name, "source": source});
        let dependency = |name: &str, kinds: &[Value]| {
            let kinds: Vec<_> = kinds.iter().map(|kind| json!({"kind": kind})).collect();
            json!({"pkg": name, "dep_kinds": kinds})
        };
        let metadata = json!({
            "packages": [
                package("farlun", Value::Null), package("wire", Value::Null), package("used", json!("registry")),
                package("test", json!("registry")), package("build", json!("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "farlun", "deps": [
                    dependency("wire", &[Value::Null]), dependency("test", &[json!("dev")]),
                    dependency("build", &[json!("build")]),
                ]},
                {"id": "wire", "deps": [dependency("used", &[json!("dev"), Value::Null])]},
                {"id": "used", "deps": []}, {"id": "test", "deps": []}, {"id": "build", "deps": []},
            ]},
        });
        let names: Vec<_> =
            linked(&metadata).unwrap().iter().map(|package| package["name"].clone()).collect();
        assert_eq!(names, [json!("farlun"), json!("wire"), json!("used")]);
    }
}
