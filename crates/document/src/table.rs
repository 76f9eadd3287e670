//! Access to a parsed TOML document: tables and entries with their spans.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Problem, Problems, instead};
use crate::scalar::Scalar;

/// A parsed TOML document. The caller interprets its entries.
pub struct Document<'a> {
    table: Spanned<DeTable<'a>>,
}

/// An entry of a table: key, value and their spans.
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// Span of the key in the document, in bytes.
    pub key_span: Range<usize>,
    value: &'a DeValue<'a>,
    /// Span of the value in the document, in bytes.
    pub span: Range<usize>,
}

/// A table, its span and its name in error messages.
pub struct Section<'a> {
    /// Name in error messages, such as `[path]`.
    pub name: String,
    /// Span in the document, in bytes.
    pub span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Parses the text; each syntax error is a problem.
    pub fn parse(text: &'a str) -> Result<Document<'a>, Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut problems = Problems::of(text);
        for error in &errors {
            problems.at(&error.span().unwrap_or(0..0), format!("not TOML: {}", error.message()));
        }
        match problems.is_empty() {
            true => Ok(Document { table }),
            false => Err(problems.into_sorted()),
        }
    }

    /// Returns the top-level table, called `name` in error messages.
    pub fn top(&self, name: &str) -> Section<'_> {
        Section::new(name, 0..0, self.table.get_ref())
    }
}

impl<'a> Section<'a> {
    fn new(name: &str, span: Range<usize>, table: &'a DeTable<'a>) -> Section<'a> {
        Section { name: name.to_owned(), span, table }
    }

    /// Entries in the order of the text.
    pub fn entries(&self) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'a>> = self
            .table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref(),
                key_span: key.span(),
                value: value.get_ref(),
                span: value.span(),
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        entries
    }

    /// Entries by their names, with tables one level down flattened: `read.depth`.
    pub fn flat_entries(&self) -> Vec<(String, Entry<'a>)> {
        let flat = |entry: Entry<'a>| match entry.value {
            // An empty table stays an entry, so that the caller reports it.
            DeValue::Table(table) if !table.is_empty() => {
                let inner = Section::new(&self.name, entry.key_span.clone(), table).entries();
                inner.into_iter().map(|inner| (format!("{}.{}", entry.key, inner.key), inner)).collect()
            }
            _ => vec![(entry.key.to_owned(), entry)],
        };
        self.entries().into_iter().flat_map(flat).collect()
    }

    /// The entry of that name.
    pub fn entry(&self, key: &str) -> Option<Entry<'a>> {
        self.entries().into_iter().find(|entry| entry.key == key)
    }

    /// Returns a mandatory entry; reports a problem with `example` if it is missing.
    pub fn required(&self, key: &str, example: &str, problems: &mut Problems<'_>) -> Option<Entry<'a>> {
        let entry = self.entry(key);
        if entry.is_none() {
            problems.at(&self.span, format!("{} needs {key}, such as {key} = {example}", self.name));
        }
        entry
    }

    /// Reports an unknown key and suggests the nearest of `known`.
    pub fn unknown<'n>(
        &self,
        entry: &Entry<'_>,
        known: impl IntoIterator<Item = &'n str>,
        problems: &mut Problems<'_>,
    ) {
        let hint = instead(entry.key, known);
        problems.at(&entry.key_span, format!("unknown key '{}' in {}{hint}", entry.key, self.name));
    }
}

impl<'a> Entry<'a> {
    /// Returns a scalar value; reports a problem for a list or a table.
    pub fn scalar(&self, problems: &mut Problems<'_>) -> Option<Scalar> {
        match scalar(self.value) {
            Ok(value) => Some(value),
            Err(text) => {
                problems.at(&self.span, format!("'{}' must be {text}", self.key));
                None
            }
        }
    }

    /// Returns the text of a scalar value for messages.
    pub fn label(&self) -> Option<String> {
        scalar(self.value).ok().map(|value| value.label())
    }

    /// Converts a scalar value with a reader of [`Scalar`]; reports the reader's error as a problem.
    pub fn read<T>(
        &self,
        problems: &mut Problems<'_>,
        reader: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Option<T> {
        let scalar = self.scalar(problems)?;
        match reader(&scalar) {
            Ok(value) => Some(value),
            Err(text) => {
                problems.at(&self.span, format!("{}: {text}", self.key));
                None
            }
        }
    }

    /// The value as a table of the document, such as `[path]`.
    pub fn section(&self, name: &str, problems: &mut Problems<'_>) -> Option<Section<'a>> {
        match self.value {
            DeValue::Table(table) => Some(Section::new(name, self.key_span.clone(), table)),
            other => {
                let found = article(other.type_str());
                problems.at(&self.span, format!("'{}' must be a table {name}, found {found}", self.key));
                None
            }
        }
    }

    /// The value as a list of tables, such as several `[[load]]`.
    pub fn sections(&self, name: &str, problems: &mut Problems<'_>) -> Vec<Section<'a>> {
        let DeValue::Array(array) = self.value else {
            problems.at(&self.key_span, format!("'{}' must be a list of tables: write {name}", self.key));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::Table(table) => sections.push(Section::new(name, item.span(), table)),
                _ => problems
                    .at(&item.span(), format!("'{}' must be a list of tables: write {name}", self.key)),
            }
        }
        sections
    }

    /// Returns a scalar value, or the elements of a list, with their spans.
    pub fn one_or_more(&self, problems: &mut Problems<'_>) -> Vec<(Scalar, Range<usize>)> {
        match self.value {
            DeValue::Array(_) => self.list(problems),
            _ => self.scalar(problems).map(|value| (value, self.span.clone())).into_iter().collect(),
        }
    }

    /// Returns the elements of a list of scalars with their spans.
    pub fn list(&self, problems: &mut Problems<'_>) -> Vec<(Scalar, Range<usize>)> {
        let DeValue::Array(array) = self.value else {
            let found = article(self.value.type_str());
            problems.at(&self.span, format!("'{}' must be a list in [ ], found {found}", self.key));
            return Vec::new();
        };
        let mut values = Vec::new();
        for item in array.iter() {
            match scalar(item.get_ref()) {
                Ok(value) => values.push((value, item.span())),
                Err(text) => {
                    problems.at(&item.span(), format!("each element of '{}' must be {text}", self.key));
                }
            }
        }
        values
    }
}

/// Converts a scalar value; the error states the expected and the found type.
fn scalar(value: &DeValue<'_>) -> Result<Scalar, String> {
    let found = match value {
        DeValue::String(text) => return Ok(Scalar::Text(text.to_string())),
        DeValue::Boolean(value) => return Ok(Scalar::Bool(*value)),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            return i64::from_str_radix(digits, number.radix())
                .map(Scalar::Integer)
                .map_err(|_| format!("a whole number from {} to {}, found {digits}", i64::MIN, i64::MAX));
        }
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => return Ok(Scalar::Float(number)),
            Err(_) => number.as_str().to_owned(),
        },
        other => article(other.type_str()),
    };
    Err(format!("a single value: a text in quotes, a number, true or false; found {found}"))
}

fn article(kind: &str) -> String {
    match kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => format!("an {kind}"),
        false => format!("a {kind}"),
    }
}
