//! A target told in a file: what is taken, what is refused and in which words, `--check`, and that the sample and the
//! commands of the manual work as they stand.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use e2e::ours::Target;
use e2e::{Finished, farlun, farlun_path, need, port, run, skip};

const MINUTE: Duration = Duration::from_secs(60);
/// Pages with the flags and the examples.
const MANUAL: &str = concat!(
    include_str!("../../../../../docs/reference/target.md"),
    include_str!("../../../../../docs/reference/target-luns.md"),
    include_str!("../../../../../docs/reference/initiators.md"),
);
const SAMPLE: &str = include_str!("../../../../../docs/target.toml");
const SECRETS: &str = "alice the-secret-of-alice\ndisk the-secret-of-the-disk\n";

/// A folder with a configuration, a disk, and secrets that only their owner can read.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::Builder::new().prefix("farlun-config-").tempdir().expect("a folder"));
        for name in ["disk.img", "gold.img"] {
            fs::File::create(folder.path(name)).and_then(|file| file.set_len(1 << 20)).expect("a disk");
        }
        folder.write("secrets", SECRETS);
        folder.protect("secrets", 0o600);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn protect(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("its mode");
    }

    /// `farlun target --config` with this text, in this folder.
    fn target(&self, text: &str, flags: &[&str]) -> Command {
        self.write("target.toml", text);
        let mut command = farlun(["target", "--config", "target.toml"]);
        command.args(flags).current_dir(self.0.path());
        command
    }

    fn check(&self, text: &str, flags: &[&str]) -> Finished {
        run(self.target(text, &["--check", "--json"]).args(flags), MINUTE)
    }
}

/// The target of the manual, but for its addresses.
const RIGHT: &str = r#"iqn = "iqn.2026-11.org.example:store"
listen = ["127.0.0.1:0"]

[[lun]]
number = 0
spec = "memory:64MiB"

[[lun]]
number = 3
spec = "file:disk.img"
"#;

#[test]
fn a_file_serves_what_flags_serve() {
    let folder = Folder::new();
    let target = Target::start(&mut folder.target(RIGHT, &["--json"]));
    assert_eq!(target.iqn(), "iqn.2026-11.org.example:store");
    let luns = json!([
        {"lun": 0, "bytes": 64 << 20, "kind": "memory"},
        {"lun": 3, "bytes": 1 << 20, "kind": "file"},
    ]);
    assert_eq!(target.ready["luns"], luns);
    let listed = run(&mut farlun(["ls", &target.portal(), "--json"]), MINUTE).expect_code(0).json();
    let numbers: Vec<&Value> = listed["targets"][0]["luns"]
        .as_array()
        .unwrap_or_else(|| panic!("a list of LUNs: {listed}"))
        .iter()
        .map(|lun| &lun["lun"])
        .collect();
    assert_eq!(numbers, [0, 3], "{listed}");
    run(&mut farlun(["inquiry", &target.url(3)]), MINUTE).expect_code(0);
    run(&mut farlun(["inquiry", &target.url(1)]), MINUTE).expect_code(1);
}

#[test]
fn flags_win_and_luns_add() {
    let folder = Folder::new();
    let text = format!("{RIGHT}\n[chap]\nsecret_file = \"secrets\"\n[[chap.user]]\nname = \"alice\"\n")
        .replace("number = 0", "number = 7")
        + "[chap.target]\nname = \"disk\"\n";
    let flags = ["--lun", "memory:1MiB", "--iqn", "iqn.2026-11.org.example:other", "--digest", "prefer"];
    let said = folder.check(&text, &flags).expect_code(0).json();
    assert_eq!(said["iqn"], "iqn.2026-11.org.example:other", "{said}");
    assert_eq!(said["listen"], json!(["127.0.0.1:0"]), "{said}");
    assert_eq!(said["digest"], "prefer", "{said}");
    let algorithms = ["sha3-256", "sha256", "sha1", "md5"];
    let chap = json!({"users": ["alice"], "target": "disk", "algorithms": algorithms, "initiators": {}});
    assert_eq!(said["chap"], chap, "{said}");
    let luns = json!([
        {"lun": 0, "spec": "memory:1MiB", "bytes": 1 << 20},
        {"lun": 3, "spec": "file:disk.img", "bytes": 1 << 20},
        {"lun": 7, "spec": "memory:64MiB", "bytes": 64 << 20},
    ]);
    assert_eq!(said["luns"], luns, "{said}");
    let listen = ["--listen", "127.0.0.2:0", "--allow", "iqn.2026-11.org.example:me"];
    let said = folder.check(RIGHT, &listen).expect_code(0).json();
    assert_eq!(said["listen"], json!(["127.0.0.2:0"]), "{said}");
    assert_eq!(said["allow"], json!(["iqn.2026-11.org.example:me"]), "{said}");
}

#[test]
fn users_are_bound_and_old_algorithms_switched_off() {
    let folder = Folder::new();
    folder.write("secrets", &format!("{SECRETS}@alice iqn.2026-11.org.example:a\nbob the-secret-of-bob\n"));
    folder.protect("secrets", 0o600);
    let (a, b) = ("iqn.2026-11.org.example:a", "iqn.2026-11.org.example:b");
    let text = format!(
        "cold_reset = [\"{a}\"]\n{RIGHT}\n[chap]\nsecret_file = \"secrets\"\nalgorithms = [\"sha256\"]\n\
         [[chap.user]]\nname = \"alice\"\n[[chap.user]]\nname = \"bob\"\ninitiators = [\"{b}\"]\n"
    );
    let said = folder.check(&text, &[]).expect_code(0).json();
    assert_eq!(said["chap"]["algorithms"], json!(["sha256"]), "{said}");
    assert_eq!(said["chap"]["initiators"], json!({"alice": [a], "bob": [b]}), "{said}");
    assert_eq!(said["cold_reset"], json!([a]), "{said}");
    let flags = ["--chap", "alice", "--chap-secret-file", "secrets", "--chap-algorithms", "sha3-256,sha256"];
    let said = folder.check(RIGHT, &[&flags[..], &["--cold-reset", b]].concat()).expect_code(0).json();
    assert_eq!(said["chap"]["algorithms"], json!(["sha3-256", "sha256"]), "{said}");
    assert_eq!(said["chap"]["initiators"], json!({"alice": [a]}), "{said}");
    assert_eq!(said["cold_reset"], json!([b]), "{said}");
}

/// Every text with one of its problems: line, column, and what is said.
const FAULTY: &[(&str, u64, u64, &[&str])] = &[
    ("listn = [\"127.0.0.1\"]", 1, 1, &["unknown key 'listn'", "did you mean 'listen'?"]),
    ("colour = 1", 1, 1, &["unknown key 'colour'", "known here: iqn, listen, allow"]),
    ("iqn = \"iqn.a\"\niqn = \"iqn.b\"", 2, 1, &["not TOML", "duplicate"]),
    ("iqn = iqn.a", 1, 7, &["not TOML"]),
    ("iqn = 5", 1, 7, &["iqn: expected a text in quotes, found 5"]),
    ("iqn = \"store\"", 1, 7, &["'store' is no iSCSI name", "such as iqn."]),
    ("listen = \"127.0.0.1\"", 1, 10, &["'listen' must be a list in [ ]"]),
    ("listen = [\"127.0.0.1:x\"]", 1, 11, &["'127.0.0.1:x'", "expected ADDR:PORT such as"]),
    ("listen = [\"127.0.0.1\", 7]", 1, 24, &["expected a text in quotes, found 7"]),
    ("listen = []", 1, 10, &["no address"]),
    ("listen = [\"127.0.0.1\", \"127.0.0.1:3260\"]", 1, 10, &["127.0.0.1:3260 is there twice"]),
    ("[compat]\njoined_send = true", 1, 2, &["joined-send joins", "separate-status"]),
    ("[compat]\nnagel = true", 2, 1, &["unknown key 'nagel'", "did you mean 'nagle'"]),
    ("[compat]\nnagle = 1", 2, 9, &["nagle"]),
    ("allow = []", 1, 9, &["would admit nobody"]),
    ("allow = [\"iqn.a\", \"b c\"]", 1, 19, &["'b c' is no iSCSI name"]),
    ("cold_reset = [\"b c\"]", 1, 15, &["cold_reset: 'b c' is no iSCSI name"]),
    ("[chap]\nalgorithms = [\"md4\"]", 2, 15, &["algorithms: expected some of sha3-256,sha256,sha1,md5"]),
    ("digest = \"crc32\"", 1, 10, &["unknown value 'crc32'", "did you mean 'crc32c'?"]),
    ("insecure = \"yes\"", 1, 12, &["expected true or false, found 'yes'"]),
    ("[target]\niqn = \"iqn.a\"", 1, 2, &["one target", "second"]),
    ("lun = \"memory:1MiB\"", 1, 1, &["must be a list of tables: write [[lun]]"]),
    ("[[lun]]\nspec = \"memory:1MiB\"", 1, 1, &["[[lun]] needs number, such as number = 0"]),
    ("[[lun]]\nnumber = 1", 1, 1, &["[[lun]] needs spec, such as spec = \"memory:1GiB\""]),
    ("[[lun]]\nnumber = 256\nspec = \"memory:1MiB\"", 2, 10, &["from 0 to 255, found '256'"]),
    ("[[lun]]\nnumber = 1\nspec = \"memory:1 apple\"", 3, 8, &["'1 apple' is not a size such as"]),
    ("[[lun]]\nnumber = 1\nspec = \"flie:/srv\"", 3, 8, &["did you mean 'file:/srv'?"]),
    ("[[lun]]\nnumber = 1\nspec = \"memory:1MiB\"\nsize = 1", 4, 1, &["unknown key 'size' in [[lun]]"]),
    (
        "[[lun]]\nnumber = 1\nspec = \"memory:1MiB\"\n[[lun]]\nnumber = 1\nspec = \"memory:2MiB\"",
        5,
        10,
        &["1 is taken by 'memory:1MiB'"],
    ),
    ("chap = true", 1, 8, &["'chap' must be a table [chap]"]),
    ("[chap]\nsecret_file = \"secrets\"", 1, 2, &["names nobody", "[[chap.user]]"]),
    ("[chap]\nsecret_file = \"nowhere\"", 2, 15, &["nowhere: No such file"]),
    ("[[chap.user]]\nname = \"alice\"", 1, 1, &["'alice' has no secret", "secret_file"]),
    ("[[chap.user]]\nname = \"alice\"\nsecret = \"hunter2\"", 1, 1, &["'alice' has 7 bytes", "at least 12"]),
    ("[[chap.user]]\nname = \"alice\"\nsecret = 123456789012", 3, 10, &["secret: expected a text in quotes"]),
    (
        "[[chap.user]]\nname = \"alice\"\nsercet = \"x\"",
        3,
        1,
        &["unknown key 'sercet'", "did you mean 'secret'?"],
    ),
    (
        "[chap]\nsecret_file = \"secrets\"\n[[chap.user]]\nname = \"carol\"",
        3,
        1,
        &["secrets: there is no line for 'carol'"],
    ),
    (
        "[[chap.user]]\nname = \"alice\"\nsecret_file = \"secrets\"\nsecret = \"hunter2hunter2\"",
        3,
        1,
        &["'alice' has a secret and a secret_file"],
    ),
    (
        "[chap]\nsecret_file = \"secrets\"\n[[chap.user]]\nname = \"alice\"\n[[chap.user]]\nname = \"alice\"",
        5,
        1,
        &["the user 'alice' is there twice"],
    ),
    (
        "[[chap.user]]\nname = \"a\"\nsecret = \"hunter2hunter2\"\n[chap.target]\nname = \"b\"\nsecret = \"hunter2hunter2\"",
        1,
        3,
        &["the same CHAP secret as the other direction"],
    ),
];

#[test]
fn faulty_files_are_told_by_line_and_column() {
    let folder = Folder::new();
    for (text, line, column, words) in FAULTY {
        // What is wrong is the same whatever stands below it; a LUN is needed anyway.
        let lun = if text.contains("lun") { "" } else { "\n[[lun]]\nnumber = 0\nspec = \"memory:1MiB\"\n" };
        let said = folder.check(&format!("{text}{lun}"), &[]).expect_code(2);
        assert!(!said.stdout.contains("hunter2"), "a secret is shown\n{said:#?}");
        let document = said.json();
        assert_eq!(document["ok"], false, "{text}\n{document}");
        let problems = document["problems"].as_array().expect("a list of problems");
        let is_it = |problem: &&Value| {
            let told = problem["text"].as_str().unwrap_or_default();
            problem["line"] == *line && problem["column"] == *column && words.iter().all(|w| told.contains(w))
        };
        assert!(
            problems.iter().any(|problem| is_it(&problem)),
            "{line}:{column} {words:?}\n{text}\n{document}"
        );
    }
}

#[test]
fn all_problems_at_once_in_words() {
    let folder = Folder::new();
    let mut command = folder.target("iqm = 1\n\n[[lun]]\nnumber = 0\nspec = 5\n", &[]);
    let said = run(&mut command, MINUTE).expect_code(2).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].ends_with("target.toml:1:1: unknown key 'iqm' in the configuration; did you mean 'iqn'?")
    );
    assert!(lines[1].starts_with("target.toml:5:8: spec: expected a text"), "{said}");
}

/// All IPv4 and all IPv6 addresses with one port, and an address for others than this host; discovery names what listens.
#[test]
fn both_families_at_one_port_and_an_address_to_advertise() {
    let port = port::unused();
    let (v4, v6) = (format!("0.0.0.0:{port}"), format!("[::]:{port}"));
    let flags = ["target", "--lun", "memory:1MiB", "--json", "--insecure", "--listen", &v4, "--listen", &v6];
    let advertise = ["--advertise", "san.example.org:13260"];
    let checked = run(farlun(flags).args(advertise).arg("--check"), MINUTE).expect_code(0).json();
    assert_eq!(checked["listen"], json!([v4, v6]), "{checked}");
    assert_eq!(
        (&checked["advertise"], &checked["warnings"]),
        (&json!(["san.example.org:13260,1"]), &json!([]))
    );
    let target = Target::start(farlun(flags).args(advertise));
    for own in ["127.0.0.1", "[::1]"] {
        let listed = run(&mut farlun(["ls", &format!("iscsi://{own}:{port}"), "--json"]), MINUTE);
        let listed = listed.expect_code(0).json();
        assert_eq!(listed["targets"][0]["addresses"], json!([format!("{own}:{port},1")]), "{listed}");
        assert_eq!(listed["targets"][0]["luns"][0]["lun"], 0, "{listed}");
    }
    let taken = run(farlun(flags).arg("--check"), MINUTE).expect_code(0).json();
    assert!(taken["warnings"][0].as_str().is_some_and(|text| text.contains("in use now")), "{taken}");
    drop(target);
}

#[test]
fn what_a_file_that_reads_well_can_still_not_serve() {
    let folder = Folder::new();
    let check = |text: &str, flags: &[&str], words: &[&str]| {
        // Whoever serves at once is told the same, with the same exit code.
        for last in [&["--check"][..], &[]] {
            let said = run(folder.target(text, flags).args(last), MINUTE).expect_code(2);
            assert!(said.stdout.is_empty(), "{said:#?}");
            said.expect_sentence(words);
        }
    };
    check("iqn = \"iqn.a\"", &[], &["nothing to serve"]);
    check(&RIGHT.replace("disk.img", "none.img"), &[], &["LUN 3 (file:none.img)"]);
    check(&RIGHT.replace("64MiB", "1000"), &[], &["LUN 0 (memory:1000B)"]);
    check(&RIGHT.replace("127.0.0.1:0", "0.0.0.0:0"), &[], &["--insecure"]);
    check(&RIGHT.replace("127.0.0.1:0", "192.0.2.1:0"), &["--insecure"], &["cannot listen on 192.0.2.1:0"]);
    check(&format!("congestion = \"warp\"\n{RIGHT}"), &[], &["'warp' is not available"]);
    check(&format!("trace = \"disk.img\"\n{RIGHT}"), &[], &["disk.img is a file"]);
    check(RIGHT, &["--lun", "memory:1MiB"], &["0 is taken by --lun memory:1MiB"]);
    check(
        RIGHT,
        &["--listen", "[::1]:3999", "--listen", "[::1]:3999"],
        &["--listen: [::1]:3999 is there twice"],
    );
    check(
        RIGHT,
        &["--insecure", "--listen", "127.0.0.1:3999", "--listen", "0.0.0.0:3999"],
        &["--listen: 0.0.0.0:3999 is 127.0.0.1:3999 too"],
    );
    check(
        &RIGHT.replace("64MiB", "64MiB,fault=read:lba=131072"),
        &[],
        &["LUN 0", "131072 blocks are numbered"],
    );
    check(&RIGHT.replace("64MiB", "64MiB,fault=sync"), &[], &["'fault=sync' would never strike"]);
    check(&RIGHT.replace("64MiB", "64MiB,seed=1,seed=1"), &[], &["'seed' is there twice"]);
    let mut missing = farlun(["target", "--check", "--config", "/nowhere/target.toml"]);
    run(&mut missing, MINUTE).expect_code(2).expect_sentence(&["/nowhere/target.toml: No such file"]);
}

#[test]
fn secrets_in_a_file_that_everybody_may_read() {
    let folder = Folder::new();
    let secret = "[[chap.user]]\nname = \"alice\"\nsecret = \"the-secret-of-alice\"\n";
    let text = format!("{RIGHT}{secret}");
    folder.write("target.toml", &text);
    // Everybody, the group, the owner.
    for (mode, warnings) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        folder.protect("target.toml", mode);
        let said = folder.check(&text, &[]).expect_code(0).json();
        assert_eq!(said["warnings"].as_array().map(Vec::len), Some(warnings), "{mode:o}: {said}");
    }
    // Others may read it as long as there is no secret in it.
    folder.protect("target.toml", 0o644);
    let elsewhere = secret.replace("secret = \"the-secret-of-alice\"", "secret_file = \"secrets\"");
    let said = folder.check(&format!("{RIGHT}{elsewhere}"), &[]).expect_code(0).json();
    assert_eq!(said["warnings"], json!([]), "{said}");
}

#[test]
fn luns_that_would_write_to_one_store() {
    let folder = Folder::new();
    let second = |spec: &str| format!("{RIGHT}\n[[lun]]\nnumber = 9\nspec = \"{spec}\"\n");
    let said = run(&mut folder.target(&second("file:./disk.img"), &["--check"]), MINUTE).expect_code(2);
    said.expect_sentence(&["LUNs 3 and 9 are both"]);
    folder.check(&second("file:gold.img"), &[]).expect_code(0);
}

#[test]
fn a_check_disturbs_nobody() {
    let folder = Folder::new();
    let mut target = Target::start(&mut folder.target(RIGHT, &["--json"]));
    let said = folder.check(RIGHT, &[]).expect_code(0).json();
    assert_eq!(said["luns"][1], json!({"lun": 3, "spec": "file:disk.img", "bytes": null}), "{said}");
    let words = run(&mut folder.target(RIGHT, &["--check"]), MINUTE).expect_code(0).stdout;
    assert!(words.contains("LUN 3       file:disk.img (in use now)"), "{words}");
    run(&mut farlun(["inquiry", &target.url(3)]), MINUTE).expect_code(0);
    assert_eq!(target.service.terminate(), 0);
}

#[test]
fn the_sample_as_it_ships_and_with_every_key() {
    let folder = Folder::new();
    folder.check(SAMPLE, &[]).expect_code(0);
    let uncommented: Vec<&str> = SAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => key,
            _ => line,
        })
        .collect();
    let whole =
        uncommented.join("\n").replace("/srv/", "").replace("/etc/farlun/", "").replace("/var/lib/", "");
    let said = folder.check(&whole, &[]).expect_code(0).json();
    assert_eq!(said["luns"].as_array().map(Vec::len), Some(3), "{said}");
    let chap = &said["chap"];
    assert_eq!((&chap["users"], &chap["target"]), (&json!(["alice", "bob"]), &json!("disk")), "{said}");
    assert_eq!(chap["algorithms"], json!(["sha3-256", "sha256"]), "{said}");
    assert_eq!((&said["digest"], &said["congestion"]), (&json!("prefer"), &json!("cubic")), "{said}");
    assert_eq!(said["allow"].as_array().map(Vec::len), Some(2), "{said}");
    assert_eq!(said["compat"], "nagle,separate-status", "{said}");
}

#[test]
fn the_file_of_the_manual() {
    let folder = Folder::new();
    let file = blocks("toml").next().expect("the manual shows a file").replace("/srv/", "");
    let file =
        file.replace("/etc/farlun/", "").replace("192.0.2.10", "127.0.0.1").replace("2001:db8::10", "::1");
    folder.check(&file, &[]).expect_code(0);
}

/// The blocks of the manual that are marked so.
fn blocks(mark: &'static str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{mark}\n");
    let found = MANUAL.match_indices(&fence).map(|(at, found)| at + found.len()).collect::<Vec<_>>();
    found.into_iter().map(|begin| MANUAL[begin..].split("```").next().expect("a block has an end"))
}

/// Runs every line of the marked blocks that begins with one of `programs`.
fn run_the_manual(mark: &'static str, programs: &[&str], target: &Target, folder: &Folder) {
    // A backslash at the end of a line joins it with the next, as in a shell.
    let text = blocks(mark).collect::<String>().replace("\\\n", "");
    let lines = text.lines();
    let mut count = 0;
    for line in lines.filter(|line| programs.iter().any(|program| line.starts_with(program))) {
        let line = line.replace("127.0.0.1:3260", target.address()).replace("/srv/", "./");
        let line = match line.strip_prefix("farlun ") {
            Some(rest) => format!("{} {rest}", farlun_path().display()),
            None => line,
        };
        run(Command::new("sh").args(["-c", &line]).current_dir(folder.0.path()), MINUTE).expect_code(0);
        count += 1;
    }
    assert!(count >= 3, "the manual has examples of {programs:?} in {mark}");
}

/// The target of the manual's examples.
fn of_the_manual(folder: &Folder, more: &str) -> Target {
    let text =
        RIGHT.replace("number = 3", "number = 9").replace("64MiB", "1MiB").replace("disk.img", "gold.img");
    Target::start(&mut folder.target(&format!("{text}{more}"), &["--json"]))
}

#[test]
fn the_manuals_farlun() {
    let folder = Folder::new();
    run_the_manual("sh", &["farlun "], &of_the_manual(&folder, ""), &folder);
}

#[test]
fn the_manuals_libiscsi() {
    need!(skip::program("iscsi-ls"), skip::program("iscsi-inq"), skip::program("iscsi-perf"));
    let folder = Folder::new();
    run_the_manual("sh", &["iscsi-"], &of_the_manual(&folder, ""), &folder);
    let chap = "[chap]\nsecret_file = \"secrets\"\n[[chap.user]]\nname = \"alice\"\n[chap.target]\nname = \"disk\"\n";
    run_the_manual("sh chap", &["iscsi-"], &of_the_manual(&folder, chap), &folder);
}

#[test]
fn the_manuals_qemu() {
    need!(skip::qemu_iscsi(), skip::program("qemu-io"));
    let folder = Folder::new();
    fs::write(folder.path("disk.img"), [0x5a; 1 << 20]).expect("an image");
    run_the_manual("sh", &["qemu-"], &of_the_manual(&folder, ""), &folder);
    let same = |a: &Path, b: &Path| fs::read(a).expect("an image") == fs::read(b).expect("an image");
    assert!(same(&folder.path("disk.img"), &folder.path("copy.img")), "the copy is the image");
}

#[test]
fn the_manual_knows_every_flag() {
    let help = run(&mut farlun(["target", "--help"]), MINUTE).expect_code(0).stdout;
    let flags = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    for flag in flags.map(|flag| flag.trim_end_matches([',', ';', ')', '.'])) {
        assert!(flag == "--help" || MANUAL.contains(&format!("`{flag}")), "{flag} is not in the manual");
    }
}
