//! Manual pages and shell completions, made from the flags: `farlun pages DIR`, in builds with the feature `pages` alone.
//!
//! `cargo xtask package` runs it. Releases have neither this word nor the crates behind it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::command::Cli;
use crate::exit;

/// Shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Exit codes with their meanings: the same for every command.
const EXIT_CODES: &[(u8, &str)] = &[
    (exit::DONE, "Done; with checks: every check holds."),
    (exit::FAILED, "The operation, or a check, failed."),
    (exit::USAGE, "Bad usage."),
    (exit::REFUSED, "The peer refused: login, authorisation."),
    (
        exit::INVALID,
        "The run is invalid: the emulator was late, or the machine starved. It yields no figure.",
    ),
];

/// Variables of the environment with their meanings.
const VARIABLES: &[(&str, &str)] = &[
    ("FARLUN_CHAP_SECRET", "CHAP secret of the user that a URL names."),
    ("FARLUN_CHAP_TARGET_SECRET", "Secret by which the target has to prove itself (--chap-target-user)."),
    ("NO_COLOR", "Output without colours, if it is set and not empty."),
];

/// Folder to write to, if the command line is `farlun pages DIR`.
pub(crate) fn folder(mut line: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let word = line.nth(1)?;
    if word == "pages" { line.next().map(PathBuf::from) } else { None }
}

/// Writes pages and completions below `folder`; the exit code.
pub(crate) fn run(folder: &Path) -> ExitCode {
    match write(folder) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(error) => {
            note!("farlun: {error:#}");
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Writes `man/NAME.1` for each command, and `completions/` for each shell.
fn write(folder: &Path) -> Result<()> {
    let (manual, completions) = (folder.join("man"), folder.join("completions"));
    for made in [&manual, &completions] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    for shell in SHELLS {
        generate_to(shell, &mut Cli::command(), "farlun", &completions)
            .with_context(|| format!("cannot write the completions for {shell}"))?;
    }
    for command in commands() {
        let path = manual.join(format!("{}.1", page_name(&command)));
        let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        write_page(&command, &mut BufWriter::new(file))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `farlun` and all commands below it, complete with their full names.
fn commands() -> Vec<Command> {
    let mut all = vec![Cli::command().disable_help_subcommand(true)];
    all[0].build();
    let mut next = 0;
    while let Some(command) = all.get(next) {
        let below: Vec<Command> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
        all.extend(below);
        next += 1;
    }
    all
}

/// Name of a command's page, such as `farlun-wan-enter`.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Writes the page of one command.
fn write_page(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let is_main = command.get_name() == "farlun";
    let man = Man::new(command.clone())
        .source(concat!("farlun ", env!("CARGO_PKG_VERSION")))
        .manual("farlun manual");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let mut roff = Roff::default();
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let after = AfterHelp::from_text(&after);
    literal(&mut roff, "EXAMPLES", &after.examples);
    literal(&mut roff, "NOTES", &after.notes);
    if is_main {
        let codes: Vec<_> = EXIT_CODES.iter().map(|(code, meaning)| (code.to_string(), *meaning)).collect();
        tagged(&mut roff, "EXIT STATUS", codes.iter().map(|(code, meaning)| (code.as_str(), *meaning)));
        tagged(&mut roff, "ENVIRONMENT", VARIABLES.iter().copied());
    } else {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold("farlun"), roman("(1), with the exit codes and the environment")]);
    }
    roff.to_writer(out)
}

/// Writes a section of lines that stay as they are.
fn literal(roff: &mut Roff, heading: &str, lines: &[&str]) {
    if lines.is_empty() {
        return;
    }
    roff.control("SH", [heading]).control("nf", []);
    for line in lines {
        roff.text([roman(*line)]);
    }
    roff.control("fi", []);
}

/// Writes a section of terms and their meanings.
fn tagged<'a>(roff: &mut Roff, heading: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) {
    roff.control("SH", [heading]);
    for (term, meaning) in rows {
        roff.control("TP", []).text([bold(term)]).text([roman(meaning)]);
    }
}

/// Text behind the flags in `--help`.
#[derive(Debug, Default, PartialEq, Eq)]
struct AfterHelp<'a> {
    examples: Vec<&'a str>,
    notes: Vec<&'a str>,
}

impl<'a> AfterHelp<'a> {
    /// Splits the text. Examples open with `Examples:` and are indented, or stand behind `Example:`.
    fn from_text(text: &'a str) -> Self {
        let mut parts = Self::default();
        let mut in_examples = false;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("Examples:").or_else(|| line.strip_prefix("Example:")) {
                in_examples = true;
                parts.examples.extend(Some(rest.trim()).filter(|rest| !rest.is_empty()));
                continue;
            }
            in_examples &= line.starts_with(' ');
            if in_examples {
                parts.examples.push(line.strip_prefix("  ").unwrap_or(line));
            } else if !(line.is_empty() && parts.notes.is_empty()) {
                parts.notes.push(line);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_pages_with_a_folder_asks_for_them() {
        let folder = |line: &str| folder(line.split(' ').map(OsString::from));
        assert_eq!(folder("farlun pages out"), Some(PathBuf::from("out")));
        assert_eq!(folder("farlun pages"), None);
        assert_eq!(folder("farlun ls pages"), None);
    }

    #[test]
    fn examples_are_told_from_notes() {
        let check = |text: &str, examples: &[&str], notes: &[&str]| {
            let expected = AfterHelp { examples: examples.to_vec(), notes: notes.to_vec() };
            assert_eq!(AfterHelp::from_text(text), expected, "{text:?}");
        };
        check("Example: farlun lab list", &["farlun lab list"], &[]);
        check("Examples:\n  a\n    b\n\nKinds:\n  c", &["a", "  b"], &["Kinds:", "  c"]);
        check("Kinds:\n  c\nExamples:\n  a", &["a"], &["Kinds:", "  c"]);
        check("", &[], &[]);
    }

    #[test]
    fn each_command_has_a_page_with_an_example() {
        let commands = commands();
        let names: Vec<&str> = commands.iter().map(page_name).collect();
        for name in ["farlun", "farlun-target", "farlun-wan-enter", "farlun-lab-check"] {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
        for command in &commands {
            let mut page = Vec::new();
            write_page(command, &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION"] {
                assert!(
                    page.contains(&format!(".SH {heading}\n")),
                    "{} has no {heading}",
                    page_name(command)
                );
            }
            let has_example = page.contains(".SH EXAMPLES\n") || command.has_subcommands();
            assert!(has_example, "{} has no example behind its flags", page_name(command));
        }
    }

    #[test]
    fn pages_and_completions_are_written() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        for file in ["man/farlun.1", "man/farlun-target.1", "completions/farlun.bash", "completions/_farlun"]
        {
            let text = fs::read_to_string(folder.path().join(file)).unwrap();
            assert!(text.contains("farlun"), "{file}");
        }
    }
}
