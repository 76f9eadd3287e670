//! Unusual configurations: any text yields settings, or problems with a position in the text. The seeds are mutated at
//! random as in fuzz targets; `FARLUN_WALKS` is the number of texts.

use super::*;

const WALKS: usize = 2_000;

/// The documented example, and every kind of entry once.
const SEEDS: [&str; 2] = [
    include_str!("../../../../../../docs/target.toml"),
    r#"
iqn = "iqn.2026-11.org.example:a"
listen = ["[::1]:3260", "127.0.0.1"]
advertise = ["192.0.2.1:3260,1"]
allow = ["iqn.2026-11.org.example:me"]
cold_reset = ["iqn.2026-11.org.example:me"]
digest = "prefer"
weight = { "iqn.2026-11.org.example:me" = 3 }
pacing = "1gbit"
window = 64
insecure = true
compat = { nagle = true, separate_status = true, joined_send = false }
[chap]
algorithms = ["sha3-256", "md5"]
[[chap.user]]
name = "alice"
secret = "twelve-bytes-or-more"
initiators = ["iqn.2026-11.org.example:me"]
[chap.target]
name = "disk"
secret = "another-one-of-twelve"
[[lun]]
number = 7
spec = "memory:1MiB,block=4096,delay=read:1ms,fault=write:lba=3"
replace = "force"
"#,
];

#[track_caller]
fn check(text: &str) {
    for allow_short in [false, true] {
        let taken: LunSpec = "memory:1MiB".parse().expect("a LUN");
        match read(text, allow_short, &[taken]) {
            Ok(file) => assert!(file.luns.specs.len() <= LUNS_MAX),
            Err(problems) => {
                assert!(!problems.is_empty(), "{text}");
                let lines = document::lines("target.toml", &problems);
                for line in lines.lines().filter_map(|line| line.strip_prefix("target.toml:")) {
                    let number = line.split(':').next().and_then(|number| number.parse::<usize>().ok());
                    let most = text.lines().count().max(1) + 1;
                    assert!(
                        number.is_none_or(|number| (1..=most).contains(&number)),
                        "{line} of {most} lines"
                    );
                }
            }
        }
    }
}

#[test]
fn any_text_is_settings_or_problems() {
    for seed in SEEDS {
        check(seed);
        for at in (0..seed.len()).filter(|at| seed.is_char_boundary(*at)) {
            check(&seed[..at]);
            for other in ["", "\"", "[", "\n", "=", "9", "é"] {
                let rest = &seed[at..];
                let next = rest.chars().next().map_or(0, char::len_utf8);
                if at % 4 == 0 {
                    check(&[&seed[..at], other, &rest[next..]].concat());
                }
            }
        }
    }
}

#[test]
fn walks_at_random() {
    let walks = std::env::var("FARLUN_WALKS").ok().and_then(|walks| walks.parse().ok()).unwrap_or(WALKS);
    // xorshift64*: the same walk in each run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    };
    let words: Vec<&str> =
        SEEDS.iter().flat_map(|seed| seed.split_inclusive(|c: char| !c.is_alphanumeric())).collect();
    for _ in 0..walks {
        let mut text: Vec<&str> =
            SEEDS[below(SEEDS.len())].split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for _ in 0..=below(8) {
            let at = below(text.len());
            match below(4) {
                0 => text.insert(at, words[below(words.len())]),
                1 => text[at] = words[below(words.len())],
                2 => {
                    let end = (at + below(12)).min(text.len());
                    text.drain(at..end);
                }
                _ => text[at] = ["-1", "99999999999999999999", "\u{0}", "''", "]", "}"][below(6)],
            }
            if text.is_empty() {
                break;
            }
        }
        check(&text.concat());
    }
}
