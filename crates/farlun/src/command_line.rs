//! This process's command line as the record of a run has it: for a shell, and without secrets.

/// The command line.
pub(crate) fn command_line() -> String {
    let words = event::shown_words(std::env::args_os().skip(1));
    let words: Vec<String> = std::iter::once("farlun".to_owned()).chain(words).collect();
    lab::quoted(&words)
}
