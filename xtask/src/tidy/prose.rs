//! Prose of comments and pages: how a doc comment opens, and how dense the words are that take the place of nouns.
//!
//! Code in backquotes and in fences is no prose: a function may be called `told`.

use super::lexer;

/// First words of a doc comment that open a relative clause instead of naming the thing.
const OPENINGS: &[&str] = &["what", "how", "whether", "who", "whoever", "whose", "where", "those"];

/// Words whose density is bounded. They replace the noun or the actor that a sentence is about.
pub(super) const WORDS: [&str; 4] = ["what", "who", "told", "asked"];

/// Characters that end a word without ending the run of letters.
const APOSTROPHES: [char; 2] = ['\'', '\u{2019}'];

/// Prose of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Prose {
    /// Line and first word of each doc comment that opens with one of [`OPENINGS`].
    pub(super) openings: Vec<(usize, String)>,
    /// Words in all.
    pub(super) words: u64,
    /// Occurrences of each of [`WORDS`].
    pub(super) hits: [u64; WORDS.len()],
}

impl Prose {
    /// Prose in the comments of a Rust file.
    pub(super) fn from_source(source: &str) -> Self {
        let mut prose = Self::default();
        for block in blocks(source) {
            prose.count(&without_code(&block.text));
            let word = opening(&block.text);
            if block.marker != "//" && OPENINGS.iter().any(|listed| word.eq_ignore_ascii_case(listed)) {
                prose.openings.push((block.line, word.to_owned()));
            }
        }
        prose
    }

    /// Prose of a Markdown page.
    pub(super) fn from_page(page: &str) -> Self {
        let mut prose = Self::default();
        // A backquote without its partner reaches no further than its paragraph.
        for paragraph in without_fences(page.lines()).split("\n\n") {
            prose.count(&without_code(paragraph));
        }
        prose
    }

    /// Occurrences of all of [`WORDS`].
    pub(super) fn occurrences(&self) -> u64 {
        self.hits.iter().sum()
    }

    fn count(&mut self, text: &str) {
        for word in words(text) {
            self.words += 1;
            let hit = WORDS.iter().position(|listed| word.eq_ignore_ascii_case(listed));
            if let Some(hit) = hit {
                self.hits[hit] += 1;
            }
        }
    }
}

/// Comments of one kind on consecutive lines, without their markers and fenced code.
struct Block {
    line: usize,
    marker: &'static str,
    text: String,
}

fn blocks(source: &str) -> Vec<Block> {
    let mut blocks: Vec<(usize, &'static str, Vec<&str>)> = Vec::new();
    let mut next = 0;
    for comment in lexer::comments(source) {
        let (marker, lines) = unmarked(comment.text);
        let end = comment.line + lines.len();
        match blocks.last_mut() {
            Some((_, open, text)) if *open == marker && comment.line == next => text.extend(lines),
            _ => blocks.push((comment.line, marker, lines)),
        }
        next = end;
    }
    let block = |(line, marker, lines): (usize, &'static str, Vec<&str>)| Block {
        line,
        marker,
        text: without_fences(lines.into_iter()),
    };
    blocks.into_iter().map(block).collect()
}

/// The marker of a comment, as that of a line comment, and its lines without it.
fn unmarked(text: &str) -> (&'static str, Vec<&str>) {
    let markers =
        [("//!", "//!"), ("///", "///"), ("//", "//"), ("/*!", "//!"), ("/**", "///"), ("/*", "//")];
    // Four slashes or three stars make an ordinary comment.
    let ordinary = text.starts_with("////") || text.starts_with("/***") || text.starts_with("/**/");
    let found =
        markers.iter().find(|(start, marker)| text.starts_with(start) && !(ordinary && *marker == "///"));
    let (start, marker) = found.copied().unwrap_or(("", "//"));
    let inside = text[start.len()..].trim_end_matches("*/");
    (marker, inside.split('\n').map(|line| line.trim_start_matches([' ', '*'])).collect())
}

/// The lines outside of code fences, joined.
fn without_fences<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in lines {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The text outside of backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The first word of a text; empty if it opens with code, a number or a quotation.
fn opening(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "*_([".contains(c));
    text.split(|c: char| !c.is_alphabetic()).next().unwrap_or(text)
}

/// The words of a text. An apostrophe ends a word ("what's" counts as "what").
fn words(text: &str) -> impl Iterator<Item = &str> {
    let runs = text.split(|c: char| !(c.is_alphanumeric() || APOSTROPHES.contains(&c)));
    let words = runs.map(|run| run.trim_start_matches(APOSTROPHES).split(APOSTROPHES).next().unwrap_or(run));
    words.filter(|word| word.contains(char::is_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First words that the rule finds in a source, with their lines.
    #[track_caller]
    fn openings(source: &str, expected: &[(usize, &str)]) {
        let found = Prose::from_source(source).openings;
        let found: Vec<_> = found.iter().map(|(line, word)| (*line, word.as_str())).collect();
        assert_eq!(found, expected, "{source:?}");
    }

    #[test]
    fn a_doc_comment_opens_with_a_noun_or_a_verb() {
        openings("//! How it works.\n", &[(1, "How")]);
        openings("//! Purpose.\n\n/// What is left.\nfn a() {}\n", &[(3, "What")]);
        openings("///\n/// **Whether** it holds.\nfn a() {}\n", &[(1, "Whether")]);
        openings("/** Those that wait. */\nfn a() {}\n", &[(1, "Those")]);
        openings("/// whose turn it is\nfn a() {}\n", &[(1, "whose")]);
        // One per comment, and its first word alone.
        openings("/// Bytes in flight.\n/// What is acknowledged is not counted.\nfn a() {}\n", &[]);
        openings("/// Whatever is left.\nfn a() {}\n", &[]);
        openings("// What is left: an ordinary comment.\nfn a() {}\n", &[]);
        openings("//// What is left: four slashes.\nfn a() {}\n", &[]);
        openings("let a = \"/// What\";\n", &[]);
        openings("/// `what` of a block.\nfn a() {}\n", &[]);
        openings("/// \"What limits\", a section.\nfn a() {}\n", &[]);
    }

    #[track_caller]
    fn counted(prose: &Prose, words: u64, hits: [u64; 4]) {
        assert_eq!((prose.words, prose.hits), (words, hits));
    }

    #[test]
    fn words_are_counted_in_comments_alone() {
        let source = "//! Tells what was told.\nfn what(who: u8) -> &str { \"what\" } // Who asked?\n";
        counted(&Prose::from_source(source), 6, [1, 1, 1, 1]);
        counted(
            &Prose::from_source("/// What's left: `what()`.\n/// ```\n/// what\n/// ```\n"),
            2,
            [1, 0, 0, 0],
        );
        counted(&Prose::from_source("// whatever, whole, 3 what\n"), 3, [1, 0, 0, 0]);
        counted(&Prose::from_source("/* what\n * who */\n"), 2, [1, 1, 0, 0]);
    }

    #[test]
    fn words_are_counted_outside_the_code_of_a_page() {
        let page = "# What it does\n\nA `who` that asked.\n\n```\nwhat who\n```\nAn odd ` quote\n\nwho\n";
        counted(&Prose::from_page(page), 9, [1, 1, 0, 1]);
    }
}
