//! Dependencies between the files of one target: every path that a file mentions, resolved to the file that defines it.
//!
//! Names only: a method that is called on a value, or a trait whose methods alone are used by a glob import, is not seen.
//! A path through a re-export leads to the file that defines the item, not to the file that passes it on. A `mod.rs` that
//! declares its children and re-exports their items therefore depends on none of them.

use std::collections::BTreeMap;

use super::names::{Import, Module};
use crate::tidy::tree::parent;

/// Edges from file to file, with one path that made each.
pub(super) type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, String>>;

/// An import leads to an import at most so often; longer chains are cycles of globs.
const STEPS_MAX: usize = 16;

/// A module in its place.
struct Node<'a> {
    names: &'a Module,
    file: &'a str,
    parent: Option<usize>,
    children: BTreeMap<&'a str, usize>,
}

/// The end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
    /// An import from another crate.
    Elsewhere,
}

/// All modules of a target; the first is its root.
pub(super) struct Graph<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Graph<'a> {
    /// Modules reachable from the file `root`. `files` are the names of all files by path; an absent file has no modules.
    pub(super) fn from_root(root: &str, files: &'a BTreeMap<&'a str, &'a Module>) -> Self {
        let mut graph = Self { nodes: Vec::new() };
        if let Some((&file, &names)) = files.get_key_value(root) {
            graph.add(None, names, file, parent(file), files);
        }
        graph
    }

    /// Adds a module and those below it; `folder` is where the files of its children lie. Returns its number.
    fn add(
        &mut self,
        above: Option<usize>,
        names: &'a Module,
        file: &'a str,
        folder: &str,
        files: &'a BTreeMap<&'a str, &'a Module>,
    ) -> usize {
        let number = self.nodes.len();
        self.nodes.push(Node { names, file, parent: above, children: BTreeMap::new() });
        for (name, inside) in &names.inline {
            let child = self.add(Some(number), inside, file, &format!("{folder}/{name}"), files);
            self.nodes[number].children.insert(name, child);
        }
        for (name, given) in &names.declared {
            let places = match given {
                Some(given) => vec![joined(parent(file), given)],
                None => vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")],
            };
            let Some((&file, &names)) = places.iter().find_map(|place| files.get_key_value(place.as_str()))
            else {
                continue;
            };
            // `#[path]` makes a file the `mod.rs` of its folder.
            let is_mod_rs = given.is_some() || file.ends_with("/mod.rs");
            let below = if is_mod_rs { parent(file).to_owned() } else { format!("{folder}/{name}") };
            let child = self.add(Some(number), names, file, &below, files);
            self.nodes[number].children.insert(name, child);
        }
        number
    }

    /// Every dependency of a file on another one.
    pub(super) fn edges(&self) -> Edges<'a> {
        let mut edges = Edges::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let imports = node.names.imports.iter().filter(|import| !self.passes_on(number, import));
            let paths = imports.map(|import| &import.path).chain(&node.names.mentions);
            for path in paths {
                let Some(Found::Item(owner)) = self.resolve(number, path, STEPS_MAX) else { continue };
                let file = self.nodes[owner].file;
                if file != node.file {
                    edges.entry(node.file).or_default().entry(file).or_insert_with(|| short(path));
                }
            }
        }
        edges
    }

    /// True for a re-export of an item that a module below `number` defines.
    fn passes_on(&self, number: usize, import: &Import) -> bool {
        let Some(Found::Item(owner)) = self.resolve(number, &import.path, STEPS_MAX) else { return false };
        let mut above = self.nodes[owner].parent;
        while above.is_some_and(|module| module != number) {
            above = above.and_then(|module| self.nodes[module].parent);
        }
        import.is_reexport && above.is_some()
    }

    /// The item or module that a path in a module leads to; `None` if its first name is unknown here.
    fn resolve(&self, module: usize, path: &[String], steps: usize) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let mut found = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(module),
            "super" => Found::Module(self.nodes[module].parent?),
            name => self.lookup(module, name, rest.is_empty(), steps)?,
        };
        for (at, name) in rest.iter().enumerate() {
            let Found::Module(inside) = found else { break };
            found = if name == "super" {
                Found::Module(self.nodes[inside].parent?)
            } else {
                // Unknown names are made by macros, most likely in that file.
                let is_last = at + 1 == rest.len();
                self.lookup(inside, name, is_last, steps).unwrap_or(Found::Item(inside))
            };
        }
        Some(found)
    }

    /// A name in the scope of a module. A module and an item may share it: the last segment of a path is the item.
    fn lookup(&self, module: usize, name: &str, is_last: bool, steps: usize) -> Option<Found> {
        let node = &self.nodes[module];
        let item = || node.names.items.contains(name).then_some(Found::Item(module));
        let child = || node.children.get(name).map(|&child| Found::Module(child));
        let own = if is_last { item().or_else(child) } else { child().or_else(item) };
        let named = || {
            let import = node.names.imports.iter().find(|import| import.name.as_deref() == Some(name))?;
            // `use name;` in a scope where `name` is nothing else leads to another crate.
            let inside = (import.path != [name]).then(|| self.resolve(module, &import.path, steps)).flatten();
            Some(inside.unwrap_or(Found::Elsewhere))
        };
        let by_glob = || {
            let globs = node.names.imports.iter().filter(|import| import.name.is_none());
            globs.filter_map(|import| self.resolve(module, &import.path, steps)).find_map(|found| {
                let Found::Module(inside) = found else { return None };
                self.lookup(inside, name, is_last, steps.checked_sub(1)?)
            })
        };
        own.or_else(named).or_else(by_glob)
    }
}

/// `../a/b.rs` seen from a folder.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The last two segments of a path.
fn short(path: &[String]) -> String {
    path[path.len().saturating_sub(2)..].join("::")
}
