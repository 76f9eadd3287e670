//! Cycles between the files of a crate: files that can only be understood together.
//!
//! A file depends on another file if its code names an item that the other one defines (see `graph`). A file lies in a
//! cycle if its dependencies lead back to it through at least one other file. `mod` declarations, re-exports of items from
//! below and code for tests are no dependencies.

mod graph;
mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use graph::{Edges, Graph};

pub(super) use names::Module;

/// Files that depend on each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// All files that can reach each other, sorted.
    pub(super) files: Vec<String>,
    /// The shortest way back to its first file: each file on the way, and the name that it uses of the next one.
    pub(super) way: Vec<(String, String)>,
}

/// The cycles among the files of a crate, given the root of each target and the names of each file by path. Files that
/// can reach each other make one cycle.
pub(super) fn in_crate(roots: &[String], files: &BTreeMap<&str, &Module>) -> Vec<Cycle> {
    let mut cycles: Vec<Cycle> = Vec::new();
    for root in roots {
        for cycle in in_target(&Graph::from_root(root, files).edges()) {
            // Files that several targets share (`#[path]`) count once.
            if !cycles.contains(&cycle) {
                cycles.push(cycle);
            }
        }
    }
    cycles.sort_by(|a, b| b.files.len().cmp(&a.files.len()).then_with(|| a.files.cmp(&b.files)));
    cycles
}

fn in_target(edges: &Edges<'_>) -> Vec<Cycle> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|&file| (file, reachable(edges, file))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut cycles = Vec::new();
    for &file in edges.keys() {
        if placed.contains(file) || !reaches(file, file) {
            continue;
        }
        let together: Vec<&str> =
            reached[file].iter().copied().filter(|other| reaches(other, file)).collect();
        let ways = together.iter().filter_map(|member| way_back(edges, member));
        let shortest = ways.min_by_key(Vec::len).unwrap_or_default();
        placed.extend(&together);
        cycles.push(Cycle {
            files: together.into_iter().map(str::to_owned).collect(),
            way: shortest.windows(2).map(|pair| named(edges, pair[0], pair[1])).collect(),
        });
    }
    cycles
}

/// Every file that the dependencies of `from` lead to; `from` itself only by a cycle.
fn reachable<'a>(edges: &Edges<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(file) = next.pop() {
        for &other in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other) {
                next.push(other);
            }
        }
    }
    reached
}

/// The shortest way from a file back to it, both ends included.
fn way_back<'a>(edges: &Edges<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for &other in edges.get(way[way.len() - 1]).into_iter().flat_map(BTreeMap::keys) {
            let longer = [way.as_slice(), &[other]].concat();
            if other == start {
                return Some(longer);
            }
            if seen.insert(other) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn named(edges: &Edges<'_>, from: &str, to: &str) -> (String, String) {
    (from.to_owned(), edges[from][to].clone())
}

#[cfg(test)]
mod tests;
