//! Rust source with comments and literals blanked, so that a rule about code is not broken by prose about it; and the
//! comments alone, for the rules about prose.
//!
//! Not a parser: it knows comments, strings, raw strings and character literals, and keeps every newline.

use std::ops::Range;

/// A comment, its markers included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment<'a> {
    /// Line of its first character, from 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// `source` with the contents of comments, strings and characters replaced by spaces; lines stay where they are.
pub(super) fn code_only(source: &str) -> String {
    let mut out = source.as_bytes().to_vec();
    for (_, place) in spans(source) {
        for byte in out[place].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The comments of `source`, from top to bottom.
pub(super) fn comments(source: &str) -> Vec<Comment<'_>> {
    let (mut line, mut counted) = (1, 0);
    let comments = spans(source).into_iter().filter(|(kind, _)| *kind == Kind::Comment);
    comments
        .map(|(_, place)| {
            line += source.as_bytes()[counted..place.start].iter().filter(|&&byte| byte == b'\n').count();
            counted = place.start;
            Comment { line, text: &source[place] }
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Comment,
    Literal,
}

/// The places of everything that is not code, from top to bottom.
fn spans(source: &str) -> Vec<(Kind, Range<usize>)> {
    let bytes = source.as_bytes();
    let mut spans = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (Kind::Comment, find(bytes, at, b"\n")),
            b'/' if bytes[at..].starts_with(b"/*") => (Kind::Comment, block_comment(bytes, at)),
            b'"' => (Kind::Literal, string(bytes, at)),
            b'r' if !continues_a_word(bytes, at) => (Kind::Literal, raw_string(bytes, at).unwrap_or(at)),
            b'\'' => (Kind::Literal, character(bytes, at).unwrap_or(at)),
            _ => (Kind::Literal, at),
        };
        if end > at {
            spans.push((kind, at..end));
        }
        at = end.max(at + 1);
    }
    spans
}

/// True if the byte before `at` belongs to the same word: `br"…"` is a raw string, `bar"` is not.
fn continues_a_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    before.is_some_and(|byte| byte != b'b' && (byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// Offset of the first `needle` at or behind `from`; the end of the file if there is none.
fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(bytes.len(), |offset| from + offset)
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at.min(bytes.len())
}

fn string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"` or `r#"…"#`; none if `start` only begins a word with an r.
fn raw_string(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    Some((find(bytes, open + 1, &close) + close.len()).min(bytes.len()))
}

/// The end of `'x'` or `'\n'`; none for a lifetime.
fn character(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        return Some((find(bytes, start + 3, b"'") + 1).min(bytes.len()));
    }
    // A character is one to four bytes long.
    let close = (2..=5).find(|&length| bytes.get(start + length) == Some(&b'\''))?;
    let inside = std::str::from_utf8(&bytes[start + 1..start + close]).ok()?;
    (inside.chars().count() == 1).then_some(start + close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_blanked_and_code_stays() {
        let check = |source: &str, expected: &str| assert_eq!(code_only(source), expected, "{source:?}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check("f(\"x\\\"y\", z)", "f(      , z)");
        check("f(r#\"x\"y\"#, z)", "f(        , z)");
        check("let c = '\"'; g()", "let c =    ; g()");
        check("let c = '\\''; g()", "let c =     ; g()");
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        check("\"one\ntwo\" x", "    \n     x");
        check("'\u{2014}' x", "      x");
    }

    #[test]
    fn comments_have_their_lines() {
        let source = "//! a\nlet b = \"// c\"; // d\n/* e\nf */ g\n/// \u{2014} h\n";
        let found: Vec<_> = comments(source).iter().map(|comment| (comment.line, comment.text)).collect();
        assert_eq!(found, [(1, "//! a"), (2, "// d"), (3, "/* e\nf */"), (5, "/// \u{2014} h")]);
    }
}
