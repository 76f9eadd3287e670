//! Parts of the test command, so that several machines can share it and a developer can run one alone.

use anyhow::{Result, bail};

/// A part of the tests. Each builds its own needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Formatting, house rules, licences, clippy, documentation, pure crates on wasm32.
    Static,
    /// Tests beside the code and simulations.
    Unit,
    /// The release binary against peers on loopback.
    Loopback,
    /// The release binary over emulated paths.
    Path,
    /// Linux's own initiator and target, in a virtual machine.
    Guest,
    /// The static build, and packages that are installed, run and removed.
    Package,
}

/// The parts of a run that names none: together at most 20 minutes on two processors from a clean clone.
pub(crate) const USUAL: &[Part] = &[Part::Static, Part::Unit, Part::Loopback, Part::Path];

const ALL: &[Part] = &[Part::Static, Part::Unit, Part::Loopback, Part::Path, Part::Guest, Part::Package];

impl Part {
    /// Name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Part::Static => "static",
            Part::Unit => "unit",
            Part::Loopback => "loopback",
            Part::Path => "path",
            Part::Guest => "guest",
            Part::Package => "package",
        }
    }

    fn named(name: &str) -> Result<Part> {
        let known = || ALL.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ");
        match ALL.iter().find(|part| part.name() == name) {
            Some(part) => Ok(*part),
            None => bail!("there is no part `{name}`; the parts are {}", known()),
        }
    }
}

/// Arguments of `cargo xtask test`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    /// Parts to run, in this order.
    pub(crate) parts: Vec<Part>,
    /// Larger images, whole plans, and half an hour of sessions at random.
    pub(crate) is_long: bool,
}

impl Selection {
    /// Reads `[--part NAME]… [--long]`.
    pub(crate) fn parse(args: &[&str]) -> Result<Selection> {
        let mut selection = Selection { parts: Vec::new(), is_long: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--long" => selection.is_long = true,
                "--part" => match args.next() {
                    Some(name) => selection.parts.push(Part::named(name)?),
                    None => bail!("--part needs a name"),
                },
                other => match other.strip_prefix("--part=") {
                    Some(name) => selection.parts.push(Part::named(name)?),
                    None => {
                        bail!("`cargo xtask test` has no argument `{other}`; it takes --part NAME and --long")
                    }
                },
            }
        }
        if selection.parts.is_empty() {
            selection.parts = USUAL.to_vec();
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_length_are_read() {
        let parse = |line: &str| Selection::parse(&line.split_whitespace().collect::<Vec<_>>());
        let check = |line: &str, parts: &[Part], is_long: bool| {
            assert_eq!(parse(line).unwrap(), Selection { parts: parts.to_vec(), is_long }, "{line}");
        };
        check("", USUAL, false);
        check("--long", USUAL, true);
        check("--part unit --part=path", &[Part::Unit, Part::Path], false);
        for (line, said) in [
            ("--part", "--part needs a name"),
            (
                "--part all",
                "there is no part `all`; the parts are static, unit, loopback, path, guest, package",
            ),
            ("--quick", "`cargo xtask test` has no argument `--quick`; it takes --part NAME and --long"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), said);
        }
    }
}
