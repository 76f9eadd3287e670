//! Structs of a file and the number of their fields.

use syn::visit::{self, Visit};

/// A struct.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) fields: usize,
}

/// Every struct of a parsed file, also inside functions and modules. Those that macros make are not seen.
pub(super) fn in_file(file: &syn::File) -> Vec<Struct> {
    let mut finder = Finder(Vec::new());
    finder.visit_file(file);
    finder.0
}

struct Finder(Vec<Struct>);

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.0.push(Struct { name: item.ident.to_string(), fields: item.fields.len() });
        visit::visit_item_struct(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_with_and_without_names() {
        let source = "/// Doc.\nstruct A { a: u8, #[b] b: C<d, e> }\nmod m { pub struct B(u8, u8, u8); }\n\
                      fn f() { struct C; let a = A { a: 1, b }; }";
        let found = in_file(&syn::parse_file(source).expect("well-formed"));
        let found: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.fields)).collect();
        assert_eq!(found, [("A", 2), ("B", 3), ("C", 0)]);
    }
}
