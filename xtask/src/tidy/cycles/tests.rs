//! Small crates with and without cycles.

use std::collections::BTreeMap;

use super::{Cycle, Module, in_crate};

/// The cycles of a crate given as paths and texts; the first file is its root.
fn cycles(files: &[(&str, &str)]) -> Vec<Cycle> {
    let parse = |text: &str| Module::from_file(&syn::parse_file(text).expect("well-formed"));
    let names: Vec<(&str, Module)> = files.iter().map(|(path, text)| (*path, parse(text))).collect();
    let by_path: BTreeMap<&str, &Module> = names.iter().map(|(path, names)| (*path, names)).collect();
    in_crate(&[files[0].0.to_owned()], &by_path)
}

/// The files of each cycle of a crate.
#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
    let found = cycles(files);
    let found: Vec<Vec<&str>> =
        found.iter().map(|cycle| cycle.files.iter().map(String::as_str).collect()).collect();
    assert_eq!(found, expected);
}

#[test]
fn two_files_that_name_each_other_make_a_cycle() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::b::B; pub struct A(B);"),
        ("src/b.rs", "pub struct B; impl B { fn f() -> super::a::A { todo() } }"),
        ("src/c.rs", "use crate::{a::A, b::B};"),
    ];
    check(&files, &[&["src/a.rs", "src/b.rs"]]);
    let pair = |file: &str, name: &str| (file.to_owned(), name.to_owned());
    assert_eq!(cycles(&files)[0].way, [pair("src/a.rs", "b::B"), pair("src/b.rs", "a::A")]);
}

#[test]
fn dependencies_in_one_direction_are_no_cycle() {
    check(
        &[
            ("src/lib.rs", "mod a; mod b; fn f() { a::g(); b::h(); }"),
            ("src/a.rs", "pub fn g() { crate::b::h() }"),
            ("src/b.rs", "pub fn h() {}"),
        ],
        &[],
    );
}

#[test]
fn a_module_that_declares_and_passes_on_is_no_cycle() {
    // `b` takes `A` through the re-export, so that it depends on `a` and not on `mod`.
    let (a, b) = ("pub struct A;", "use super::A; pub struct B(A);");
    let root = ("src/lib.rs", "mod m; pub use m::B;");
    check(
        &[
            root,
            ("src/m/mod.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("src/m/a.rs", a),
            ("src/m/b.rs", b),
        ],
        &[],
    );
    check(
        &[root, ("src/m.rs", "mod a; mod b; pub use {a::A, b::*};"), ("src/m/a.rs", a), ("src/m/b.rs", b)],
        &[],
    );
}

#[test]
fn a_module_that_uses_the_child_that_uses_it_is_a_cycle() {
    let child = ("src/m/a.rs", "pub fn f(limit: super::Limit) {}");
    let cycle: &[&[&str]] = &[&["src/m/a.rs", "src/m/mod.rs"]];
    let root = ("src/lib.rs", "mod m;");
    check(&[root, ("src/m/mod.rs", "mod a; pub struct Limit; fn g() { a::f(Limit) }"), child], cycle);
    // A name that is passed on and used is used.
    check(
        &[root, ("src/m/mod.rs", "mod a; pub use a::f; pub struct Limit; fn g() { f(Limit) }"), child],
        cycle,
    );
    check(&[root, ("src/m/mod.rs", "mod a; use a::f; pub struct Limit;"), child], cycle);
    check(&[root, ("src/m/mod.rs", "mod a; pub use a::f; pub struct Limit;"), child], &[]);
}

#[test]
fn a_reexport_from_beside_is_a_dependency() {
    check(
        &[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "pub use crate::b::B; pub struct A;"),
            ("src/b.rs", "pub struct B(crate::a::A);"),
        ],
        &[&["src/a.rs", "src/b.rs"]],
    );
}

#[test]
fn names_are_followed_through_modules_renames_and_globs() {
    let a = ("src/a.rs", "pub struct A; fn f() { crate::b::g(); }");
    let cycle: &[&[&str]] = &[&["src/a.rs", "src/b.rs"]];
    for b in [
        "use crate::a; pub fn g(x: a::A) {}",
        "use super::a as z; pub fn g(x: z::A) {}",
        "use crate::a::A as Z; pub fn g(x: Z) {}",
        "use crate::a::*; pub fn g(x: A) {}",
        "use crate::all::*; pub fn g(x: A) {}",
        "use crate::all::A; pub fn g(x: A) {}",
        "pub fn g() { print!(\"{}\", crate::a::A) }",
        "mod inner { use super::super::a::A; } pub fn g() {}",
    ] {
        check(&[("src/lib.rs", "mod a; mod b; mod all { pub use crate::a::*; }"), a, ("src/b.rs", b)], cycle);
    }
    // An import of the module alone uses nothing of it, nor does a variable of its name, nor another crate's module.
    for b in [
        "use crate::a; pub fn g() {}",
        "use crate::a; pub fn g(a: u8) { a.f(a) }",
        "use std::a::A; pub fn g(x: A) {}",
        "use crate::all::Map; pub fn g(x: Map) {}",
        "#[cfg(test)] mod tests { use crate::a::A; } pub fn g() {}",
    ] {
        let root = "mod a; mod b; mod all { use std::collections::HashMap as Map; use crate::a; }";
        check(&[("src/lib.rs", root), a, ("src/b.rs", b)], &[]);
    }
}

#[test]
fn files_are_found_where_rust_looks_for_them() {
    let file = "pub fn f() { crate::g() }";
    let root = "fn g() {} fn h() { m::a::f() }";
    for (declaration, path) in [
        ("mod m { pub mod a; }", "src/m/a.rs"),
        ("mod m { pub mod a; }", "src/m/a/mod.rs"),
        ("#[path = \"../other/m.rs\"] mod m;", "other/a.rs"),
    ] {
        let root = format!("{declaration} {root}");
        let files = [("src/lib.rs", root.as_str()), (path, file), ("other/m.rs", "pub mod a;")];
        let mut expected = vec!["src/lib.rs", path];
        expected.sort_unstable();
        check(&files, &[&expected]);
    }
}

#[test]
fn globs_that_lead_to_each_other_end() {
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub use super::b::*; fn f() { Unknown::new() }"),
        ("src/b.rs", "pub use super::a::*; fn g() { Unknown::new() }"),
    ];
    check(&files, &[]);
}

#[test]
fn cycles_apart_from_each_other_are_two() {
    let cycle = |to: &str| format!("pub struct X; fn f() -> crate::{to}::X {{ }}");
    let (a, b, c) = (cycle("b"), cycle("c"), cycle("a"));
    let (d, e) = (cycle("e"), cycle("d"));
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("src/a.rs", a.as_str()),
        ("src/b.rs", &b),
        ("src/c.rs", &c),
        ("src/d.rs", &d),
        ("src/e.rs", &e),
    ];
    check(&files, &[&["src/a.rs", "src/b.rs", "src/c.rs"], &["src/d.rs", "src/e.rs"]]);
}
