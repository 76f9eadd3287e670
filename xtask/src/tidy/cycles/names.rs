//! Names of one file: its modules, the items and imports of each, and the paths that its code mentions.
//!
//! Code for tests is left out: tests may look at both ends at once. Read `graph` next, which resolves the paths.

use std::collections::BTreeSet;

use syn::buffer::{Cursor, TokenBuffer};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, UseTree, Visibility};

/// A module, inline or a whole file.
#[derive(Debug, Default)]
pub(in crate::tidy) struct Module {
    /// Structs, enums, functions and so on that are defined here.
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths in the code, segment by segment, other than those of imports.
    pub(super) mentions: BTreeSet<Vec<String>>,
    /// Modules with a body in this file.
    pub(super) inline: Vec<(String, Module)>,
    /// Modules in files of their own: the name, and the value of `#[path]`.
    pub(super) declared: Vec<(String, Option<String>)>,
}

/// One name of a `use` declaration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// Name that it has here; `None` for a glob.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    /// Made visible to others (`pub use`, `pub(crate) use`).
    pub(super) is_reexport: bool,
}

impl Module {
    /// Names of a parsed file; none if all of it is for tests.
    pub(in crate::tidy) fn from_file(file: &syn::File) -> Self {
        if is_for_tests(&file.attrs) { Self::default() } else { Self::from_items(&file.items) }
    }

    fn from_items(items: &[Item]) -> Self {
        let mut module = Self::default();
        for item in items {
            module.visit_item(item);
        }
        module
    }

    fn import(&mut self, prefix: &[String], tree: &UseTree, is_reexport: bool) {
        let with = |name: String| [prefix, &[name]].concat();
        match tree {
            UseTree::Path(tree) => self.import(&with(tree.ident.to_string()), &tree.tree, is_reexport),
            UseTree::Name(tree) if tree.ident == "self" => {
                self.imports.push(Import {
                    name: prefix.last().cloned(),
                    path: prefix.to_vec(),
                    is_reexport,
                });
            }
            UseTree::Name(tree) => {
                let name = tree.ident.to_string();
                self.imports.push(Import { name: Some(name.clone()), path: with(name), is_reexport });
            }
            UseTree::Rename(tree) => {
                let name = Some(tree.rename.to_string());
                let path = if tree.ident == "self" { prefix.to_vec() } else { with(tree.ident.to_string()) };
                self.imports.push(Import { name, path, is_reexport });
            }
            UseTree::Glob(_) => self.imports.push(Import { name: None, path: prefix.to_vec(), is_reexport }),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree, is_reexport);
                }
            }
        }
    }

    /// Paths among the tokens of a macro or an attribute. Their meaning is unknown, so every chain of names counts.
    fn mention_tokens(&mut self, mut cursor: Cursor<'_>) {
        let mut path: Vec<String> = Vec::new();
        // Colons since the last name: two of them continue its path.
        let mut colons = 0;
        while let Some((_, next)) = cursor.token_tree() {
            let name = cursor.ident().map(|(name, _)| name.to_string());
            let is_colon = cursor.punct().is_some_and(|(mark, _)| mark.as_char() == ':');
            if is_colon {
                colons += 1;
            } else {
                if name.is_none() || colons != 2 {
                    self.mention(std::mem::take(&mut path));
                }
                path.extend(name);
                colons = 0;
            }
            if let Some((inside, ..)) = cursor.any_group() {
                self.mention_tokens(inside);
            }
            cursor = next;
        }
        self.mention(path);
    }

    /// Notes a path found in tokens. A lone name in small letters is more likely a variable or a field.
    fn mention(&mut self, path: Vec<String>) {
        let names_an_item =
            path.len() > 1 || path.first().is_some_and(|name| name.starts_with(char::is_uppercase));
        if names_an_item {
            self.mentions.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            // The body is a module of its own.
            Item::Mod(item) => {
                let name = item.ident.to_string();
                match &item.content {
                    Some((_, items)) => self.inline.push((name, Self::from_items(items))),
                    None => self.declared.push((name, path_attribute(&item.attrs))),
                }
                return;
            }
            Item::Use(item) => {
                if item.leading_colon.is_none() {
                    let is_reexport = !matches!(item.vis, Visibility::Inherited);
                    self.import(&[], &item.tree, is_reexport);
                }
                return;
            }
            _ => self.items.extend(defined(item)),
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let for_tests = matches!(item, syn::ImplItem::Fn(item) if is_for_tests(&item.attrs));
        if !for_tests {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.mentions.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    /// `#[arg(value_parser = units::bytes)]` mentions a function; a doc comment mentions nothing.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.mention_tokens(TokenBuffer::new2(list.tokens.clone()).begin());
        }
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        visit::visit_macro(self, found);
        self.mention_tokens(TokenBuffer::new2(found.tokens.clone()).begin());
    }
}

/// Name that an item defines in its module.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// True for `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    fn requires_test(condition: &Meta) -> bool {
        match condition {
            Meta::Path(path) => path.is_ident("test"),
            Meta::List(list) if list.path.is_ident("all") => list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .is_ok_and(|conditions| conditions.iter().any(requires_test)),
            _ => false,
        }
    }
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<Meta>().is_ok_and(|condition| requires_test(&condition))
    })
}

/// Value of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(source: &str) -> Module {
        Module::from_file(&syn::parse_file(source).expect("well-formed"))
    }

    fn mentions(source: &str) -> Vec<String> {
        parsed(source).mentions.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn every_name_of_an_import_has_its_path() {
        let module = parsed("pub use a::{self, B, c::{D as E, *}};\nuse ::std::fmt;\nuse f as g;");
        let imports: Vec<_> = module
            .imports
            .iter()
            .map(|import| (import.name.as_deref(), import.path.join("::"), import.is_reexport))
            .collect();
        let expected = [
            (Some("a"), "a".to_owned(), true),
            (Some("B"), "a::B".to_owned(), true),
            (Some("E"), "a::c::D".to_owned(), true),
            (None, "a::c".to_owned(), true),
            (Some("g"), "f".to_owned(), false),
        ];
        assert_eq!(imports, expected);
    }

    #[test]
    fn paths_are_found_in_types_bodies_and_macros() {
        assert_eq!(mentions("fn f(a: crate::A) { b::c(); }"), ["b::c", "crate::A"]);
        assert_eq!(mentions("impl super::T for U {}"), ["U", "super::T"]);
        assert_eq!(
            mentions("fn f() { print!(\"{}\", x.y + super::a::B::new(z: C)); }"),
            ["C", "print", "super::a::B::new"]
        );
        assert_eq!(mentions("/// d\n#[arg(parser = u::bytes)] struct F;"), ["u::bytes"]);
        assert_eq!(mentions("m! { struct A { b: c::D } }"), ["A", "c::D", "m"]);
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let source = "#[cfg(test)] mod a { use super::B; }\n#[cfg(all(test, unix))] mod c;\n#[cfg(test)] use d::E;\n\
                      struct F; impl F { #[cfg(test)] fn g() { h::i() } }\n#[cfg(unix)] mod j;";
        let module = parsed(source);
        assert!(module.inline.is_empty() && module.imports.is_empty());
        assert_eq!(module.declared, [("j".to_owned(), None)]);
        assert_eq!(mentions(source), ["F"]);
        assert!(parsed("#![cfg(test)]\nmod a;").declared.is_empty());
    }

    #[test]
    fn modules_are_told_from_items() {
        let module = parsed(
            "mod a { struct B; mod c; }\n#[path = \"e/f.rs\"] mod d;\nfn g() {}\nmacro_rules! h { () => {} }",
        );
        assert_eq!(module.items.iter().collect::<Vec<_>>(), ["g", "h"]);
        assert_eq!(module.declared, [("d".to_owned(), Some("e/f.rs".to_owned()))]);
        let (name, inside) = &module.inline[0];
        assert_eq!((name.as_str(), inside.declared.len()), ("a", 1));
        assert!(inside.items.contains("B"));
    }
}
