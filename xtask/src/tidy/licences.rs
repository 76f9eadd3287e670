//! Every dependency has a licence that allows everything we allow: permissive ones only, as in `deny.toml`.
//!
//! cargo-deny looks closer where it is installed; this check needs nothing but cargo, so it is always there.

use anyhow::{Context, Result};
use serde_json::Value;

/// The licences accepted, by SPDX name. Keep in step with `deny.toml`.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Every package whose licence expression cannot be met by the allowed ones.
pub(super) fn findings(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        match package["license"].as_str() {
            Some(expression) if acceptable(expression) => {}
            Some(expression) => findings.push(format!(
                "package `{name}` is under `{expression}`: take another one, or allow its licence in \
                 xtask/src/tidy/licences.rs and deny.toml"
            )),
            None => findings.push(format!("package `{name}` states no licence: take another one")),
        }
    }
    Ok(findings)
}

/// True if some choice that the SPDX expression leaves is made of allowed licences only.
fn acceptable(expression: &str) -> bool {
    // Cargo's old form writes `/` for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let verdict = any(&words, &mut at);
    verdict && at == words.len()
}

/// `all OR all OR …`; every side is read to its end, whatever the sides before it said.
fn any(words: &[&str], at: &mut usize) -> bool {
    let mut verdict = all(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        verdict |= all(words, at);
    }
    verdict
}

/// `one AND one AND …`
fn all(words: &[&str], at: &mut usize) -> bool {
    let mut verdict = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        verdict &= one(words, at);
    }
    verdict
}

/// A licence, one with an exception, or an expression in parentheses.
fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let verdict = any(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return verdict && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let with = words
            .get(*at + 1)
            .map_or_else(|| (*word).to_owned(), |exception| format!("{word} WITH {exception}"));
        *at += 2;
        return ALLOWED.contains(&with.as_str());
    }
    ALLOWED.contains(word)
}

#[cfg(test)]
mod tests {
    use super::acceptable;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "Apache-2.0 OR MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(acceptable(good), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "", "(MIT", "MIT MIT", "Apache-2.0 WITH Odd-exception", "OR MIT"]
        {
            assert!(!acceptable(bad), "{bad}");
        }
    }
}
