//! Words of a command line: gathered, and quoted for a shell.

/// A command line that grows.
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    pub(super) fn new(program: &str) -> Words {
        Words(vec![program.to_owned()])
    }

    pub(super) fn push<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(str::to_owned));
    }
}

/// Words as a POSIX shell takes them.
pub fn quoted(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

pub(super) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for (word, shell) in
            [("a-b", "a-b"), ("", "''"), ("two words", "'two words'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quote(word), shell);
        }
    }
}
