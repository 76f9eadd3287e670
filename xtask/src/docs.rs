//! `cargo xtask docs`: the pages of commands, made of the help that the binary prints.
//!
//! `docs/reference/commands.md` lists the commands, `docs/reference/commands/NAME.md` has the help of one and of its
//! subcommands. Nobody edits these pages: the flags in `crates/farlun/src/command` are their source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{self, Outcome};
use crate::workspace::{self, cargo};

/// The page that lists the commands.
const INDEX: &str = "docs/reference/commands.md";
/// Folder of a page for each command.
const FOLDER: &str = "docs/reference/commands";

/// A command as a list in a help has it.
struct Listed {
    name: String,
    /// Description in that list.
    about: String,
}

/// Writes the pages, as a debug build or the binary in `FARLUN_BIN` has them.
pub(crate) fn run() -> Result<bool> {
    let pages = pages(&binary()?)?;
    for path in stale(&pages)? {
        fs::remove_file(workspace::root().join(&path)).with_context(|| format!("cannot remove {path}"))?;
        println!("removed {path}");
    }
    for (path, text) in &pages {
        let place = workspace::root().join(path);
        fs::create_dir_all(place.parent().context("a page without a folder")?)
            .context("cannot make docs/")?;
        fs::write(&place, text).with_context(|| format!("cannot write {path}"))?;
    }
    println!("{} pages of commands", pages.len());
    Ok(true)
}

/// Fails unless the pages are those of this binary.
pub(crate) fn check(binary: &Path) -> Result<Outcome> {
    let pages = pages(binary)?;
    let written = |path: &str| fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
    let mut other: Vec<String> =
        pages.iter().filter(|(path, text)| written(path) != **text).map(|(path, _)| path.clone()).collect();
    other.extend(stale(&pages)?);
    if !other.is_empty() {
        bail!("{}: not as the flags are: `cargo xtask docs` writes these pages", other.join(", "));
    }
    Ok(Outcome::Passed)
}

/// The binary to ask.
fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("FARLUN_BIN") {
        return Ok(PathBuf::from(binary));
    }
    step::shown(&mut cargo(&["build", "--package", "farlun"]))?;
    Ok(workspace::target_dir()?.join("debug/farlun"))
}

/// Pages of commands that no command has.
fn stale(pages: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(workspace::root().join(FOLDER)) else { return Ok(Vec::new()) };
    let mut stale = Vec::new();
    for entry in entries {
        let path = format!("{FOLDER}/{}", entry?.file_name().to_string_lossy());
        stale.extend((!pages.contains_key(&path)).then_some(path));
    }
    Ok(stale)
}

/// Every page by its path.
fn pages(binary: &Path) -> Result<BTreeMap<String, String>> {
    let commands = listed(&help(binary, &[])?);
    if commands.is_empty() {
        bail!("{} lists no commands in its help", binary.display());
    }
    let mut index =
        "# Commands\n\nMade by `cargo xtask docs` from the flags; `farlun COMMAND --help` prints the same. \
                     Codes of all commands:\n[exit codes](exit-codes.md).\n\n"
            .to_owned();
    let mut pages = BTreeMap::new();
    for Listed { name, about } in &commands {
        index += &item(&format!("[`{name}`](commands/{name}.md): {about}"));
        let mut page = format!("# `farlun {name}`\n\nMade by `cargo xtask docs` from the flags.\n");
        let text = help(binary, &[name])?;
        page += &block(&text);
        for Listed { name: below, .. } in listed(&text) {
            page += &format!("\n## `farlun {name} {below}`\n{}", block(&help(binary, &[name, &below])?));
        }
        pages.insert(format!("{FOLDER}/{name}.md"), page);
    }
    pages.insert(INDEX.to_owned(), index);
    Ok(pages)
}

/// An item of a list, broken into lines of 118 characters.
fn item(text: &str) -> String {
    let mut lines = String::from("-");
    let mut length = 1;
    for word in text.split_whitespace() {
        let more = word.chars().count() + 1;
        if length + more > 118 {
            lines += "\n ";
            length = 1;
        }
        lines += " ";
        lines += word;
        length += more;
    }
    lines + "\n"
}

fn block(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    format!("\n```\n{}\n```\n", lines.join("\n"))
}

/// The help of a command, in lines as long as they are without a terminal.
fn help(binary: &Path, names: &[&str]) -> Result<String> {
    step::captured(Command::new(binary).args(names).arg("--help").env_remove("COLUMNS"))
}

/// The commands in the list of a help, `help` itself left out.
fn listed(help: &str) -> Vec<Listed> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let mut commands: Vec<Listed> = Vec::new();
    for line in list.take_while(|line| !line.is_empty()) {
        let text = line.trim_start();
        match line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            Some(rest) => {
                let (name, about) = rest.split_once(' ').unwrap_or((rest, ""));
                commands.push(Listed { name: name.to_owned(), about: about.trim().to_owned() });
            }
            None => {
                if let Some(last) = commands.last_mut() {
                    last.about = format!("{} {text}", last.about);
                }
            }
        }
    }
    commands.retain(|command| command.name != "help");
    commands
}

#[cfg(test)]
mod tests {
    use super::{item, listed};

    #[test]
    fn a_list_of_commands_is_read() {
        let help = "About\n\nCommands:\n  lab   Run a plan\n  top   Watch, in\n        two lines\n  help  Print\n\n\
                    Options:\n  -h  Print help\n";
        let found: Vec<String> =
            listed(help).iter().map(|command| format!("{}={}", command.name, command.about)).collect();
        assert_eq!(found, ["lab=Run a plan", "top=Watch, in two lines"]);
        assert!(listed("Usage: farlun ls\n").is_empty(), "a command without others");
    }

    #[test]
    fn an_item_is_broken_between_words() {
        let text = item(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= 118), "{text}");
        assert_eq!(text.split_whitespace().count(), 41, "{text}");
        assert!(text.starts_with("- word") && text.contains("\n  word"), "{text}");
    }
}
