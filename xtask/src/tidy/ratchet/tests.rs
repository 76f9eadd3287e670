//! Small workspaces that keep, break and undercut their bounds.

use super::{Measurements, Table, findings, list, measure, tighten};
use crate::tidy::facts;
use crate::tidy::tree::{File, Member, Tree};

/// A workspace of crates `a` and `b`, given its sources.
fn tree(sources: &[(&str, String)]) -> Tree {
    let member = |name: &str| Member {
        name: name.to_owned(),
        folder: format!("crates/{name}"),
        roots: vec![format!("crates/{name}/src/lib.rs")],
    };
    let file = |(path, text): &(&str, String)| File { path: (*path).to_owned(), text: text.clone() };
    let pages = vec![File { path: "README.md".to_owned(), text: "Serves what is asked for.".to_owned() }];
    Tree { members: vec![member("a"), member("b")], sources: sources.iter().map(file).collect(), pages }
}

fn measured(tree: &Tree, table: &Table) -> Measurements {
    measure(tree, &facts::from_files(&tree.sources), &table.exemptions)
}

/// The findings under a table, apart from those of the page.
fn found(sources: &[(&str, String)], table: &str) -> Vec<String> {
    let table = Table::parse(&format!("bound word-density docs 2 400.0\n{table}")).expect("well-formed");
    let tree = tree(sources);
    findings(&tree, &measured(&tree, &table), &table)
}

/// Checks that the sources keep a bound, that one less is a finding with these words, and that one more can fall.
#[track_caller]
fn check(rule: &str, sources: &[(&str, String)], count: usize, words: &[&str]) {
    let under = |count: usize| found(sources, &format!("bound {rule} a {count}"));
    assert_eq!(under(count), [""; 0], "{rule}");
    let over = under(count - 1);
    assert_eq!(over.len(), 1, "{over:?}");
    for word in words {
        assert!(over[0].contains(word), "`{word}` in: {}", over[0]);
    }
    let fall = under(count + 1);
    assert!(fall.len() == 1 && fall[0].contains("run `cargo xtask tidy --tighten`"), "{fall:?}");
}

fn lines(count: usize) -> String {
    "//! Purpose.\n".repeat(count)
}

fn fields(name: &str, count: usize) -> String {
    let fields: Vec<String> = (0..count).map(|number| format!("f{number}: u8")).collect();
    format!("struct {name} {{ {} }}\n", fields.join(", "))
}

#[test]
fn long_files() {
    let sources = [
        ("crates/a/src/lib.rs", lines(501)),
        ("crates/a/src/b.rs", lines(500)),
        ("crates/a/tests/target/c.rs", lines(600)),
        ("crates/b/src/lib.rs", lines(500)),
    ];
    check(
        "long-files",
        &sources,
        2,
        &["crate `a`: 2 files of more than 500 lines, 1 allowed", "c.rs (600 lines)"],
    );
    let exempt = "exempt long-files crates/a/tests a table\nbound long-files a 1";
    assert_eq!(found(&sources, exempt), [""; 0]);
}

#[test]
fn large_folders() {
    let paths: Vec<String> = (0..15).map(|number| format!("crates/a/src/m/f{number}.rs")).collect();
    let mut sources: Vec<(&str, String)> = paths.iter().map(|path| (path.as_str(), lines(1))).collect();
    // A folder of its own does not count with the folder around it.
    sources.push(("crates/a/src/m/n/mod.rs", lines(1)));
    sources.push(("crates/a/src/lib.rs", lines(1)));
    check(
        "large-folders",
        &sources,
        1,
        &["1 folder of more than 14 source files, 0 allowed", "crates/a/src/m (15 files)"],
    );
    assert_eq!(found(&sources, "exempt large-folders crates/a/src/m formats"), [""; 0]);
    assert_eq!(found(&sources[1..], ""), [""; 0], "14 files are no finding");
}

#[test]
fn wide_structs() {
    let sources = [
        ("crates/a/src/lib.rs", fields("Wide", 16) + &fields("Narrow", 15)),
        ("crates/a/src/b.rs", fields("Wider", 30)),
        ("crates/b/src/lib.rs", String::new()),
    ];
    check("wide-structs", &sources, 2, &["1 allowed", "crates/a/src/lib.rs: `Wide` (16 fields)"]);
    let exempt = "exempt wide-structs crates/a/src/b.rs columns\nbound wide-structs a 1";
    assert_eq!(found(&sources, exempt), [""; 0]);
}

#[test]
fn cycles() {
    let sources = [
        ("crates/a/src/lib.rs", "mod c; mod d; mod e;".to_owned()),
        ("crates/a/src/c.rs", "pub struct C(crate::d::D);".to_owned()),
        ("crates/a/src/d.rs", "pub struct D(crate::e::E);".to_owned()),
        ("crates/a/src/e.rs", "pub struct E(crate::c::C, crate::d::D);".to_owned()),
        ("crates/b/src/lib.rs", String::new()),
    ];
    let way = "3 files: crates/a/src/d.rs \u{2192} crates/a/src/e.rs (`e::E`) \u{2192} crates/a/src/d.rs (`d::D`); \
               crates/a/src/c.rs (in the cycle of d.rs)";
    check("cycles", &sources, 3, &["3 files in import cycles, 2 allowed", way]);
}

#[test]
fn doc_openings() {
    let source =
        "//! Purpose.\n/// Where it is.\nfn a() {}\n/// Bytes.\nfn b() {}\n/// How it is.\nfn c() {}\n";
    let sources = [("crates/a/src/lib.rs", source.to_owned()), ("crates/b/src/lib.rs", String::new())];
    check("doc-openings", &sources, 2, &["crates/a/src/lib.rs:2: `Where`; crates/a/src/lib.rs:6: `How`"]);
}

#[test]
fn word_density() {
    let prose = |hits: usize, words: usize| {
        let text = " what".repeat(hits) + &" word".repeat(words - hits);
        [("crates/a/src/lib.rs", format!("//{text}\n")), ("crates/b/src/lib.rs", String::new())]
    };
    let bound = "bound word-density a 20 20.0";
    assert_eq!(found(&prose(20, 1_000), bound), [""; 0]);
    assert_eq!(found(&prose(20, 500), bound), [""; 0], "deleted words");
    assert_eq!(found(&prose(20, 4_000), bound), [""; 0], "added words");
    assert_eq!(found(&prose(1, 1_000), ""), [""; 0], "the floor needs no row");
    let over = found(&prose(21, 1_000), bound);
    assert!(over.len() == 1 && over[0].contains("20 in all or 20.0 in 1 000 words allowed"), "{over:?}");
    assert!(
        over[0].contains("21.0 in 1 000") && over[0].contains("crates/a/src/lib.rs (what 21)"),
        "{over:?}"
    );
    let fall = found(&prose(18, 1_000), bound);
    assert!(fall.len() == 1 && fall[0].contains("--tighten"), "{fall:?}");
    let pages = tree(&[]);
    let table = Table::default();
    let over = findings(&pages, &measured(&pages, &table), &table);
    assert!(over.len() == 1 && over[0].contains("README.md (what 1, asked 1)"), "{over:?}");
}

#[test]
fn a_bound_of_no_crate_is_found_and_kept() {
    let stray = found(&[], "bound cycles gone 4");
    assert!(stray.len() == 1 && stray[0].contains("`gone`, which is no crate"), "{stray:?}");
}

#[test]
fn tightening_writes_the_lower_bounds_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(super::PATH);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
    let text = "# Bounds.\nbound long-files a 3\nbound wide-structs a 1\nbound cycles gone 4\nbound doc-openings b 2\n\
                bound word-density docs 2 400.0\n";
    let tighten_once = || {
        let table = Table::read(folder.path()).expect("well-formed");
        let wide = fields("A", 16) + &fields("B", 16);
        let tree = tree(&[("crates/a/src/lib.rs", lines(501) + &wide), ("crates/b/src/lib.rs", lines(1))]);
        tighten(folder.path(), &tree, &measured(&tree, &table), &table).expect("a writable table")
    };
    std::fs::write(&path, text).expect("a new file");
    assert_eq!(tighten_once().len(), 2);
    let expected = text
        .replace("bound long-files a 3", "bound   long-files     a                1")
        .replace("bound doc-openings b 2\n", "");
    assert_eq!(std::fs::read_to_string(&path).expect("the table"), expected);
    assert_eq!(tighten_once(), [""; 0], "nothing is left to lower");
}

#[test]
fn measurements_and_places_are_listed() {
    let tree = tree(&[("crates/a/src/lib.rs", lines(501)), ("crates/b/src/lib.rs", lines(502))]);
    let measured = measured(&tree, &Table::default());
    let rows = list(&measured, &[]).expect("no filter");
    assert_eq!(rows[0], "bound   long-files     a                1");
    assert!(rows.iter().all(|row| Table::parse(row).is_ok()), "{rows:?}");
    assert_eq!(list(&measured, &["long-files", "b"]).expect("a rule"), ["crates/b/src/lib.rs (502 lines)"]);
    assert_eq!(list(&measured, &["long-files"]).expect("a rule").len(), 2);
    assert!(list(&measured, &["odd-rule"]).is_err());
}
