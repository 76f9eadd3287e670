//! Arithmetic over metrics: `read.throughput / line.goodput`.
//!
//! Grammar: sum = product { (+ | -) product }; product = factor { (* | /) factor };
//! factor = number | metric | ( sum ) | - factor | max ( sum , sum );
//! metric = owner.name [ '[' axis = value { , axis = value } ']' ].
//!
//! The caller resolves metrics.

use std::fmt;

use super::dimension::Dimension;

/// Longest expression, in characters; it also bounds how deeply one can nest.
const MAX_CHARS: usize = 400;

/// A parsed expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expression {
    text: String,
    root: Node,
}

/// A metric as an expression names it: `read.throughput`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MetricName {
    /// The load, or `line` for figures computed from the path alone.
    pub owner: String,
    /// Name of the figure.
    pub metric: String,
    /// Axes on which the metric is pinned to one value, for every point of the expression.
    pub at: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Number(f64),
    Metric(MetricName),
    Negative(Box<Node>),
    Binary(Box<Node>, Operator, Box<Node>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Larger,
}

impl Expression {
    /// Parses an expression; the error has the text found, the text expected and the place in characters.
    pub fn parse(text: &str) -> Result<Expression, String> {
        if text.chars().count() > MAX_CHARS {
            return Err(format!("an expression may have {MAX_CHARS} characters"));
        }
        let mut parser = Parser { text, at: 0 };
        let root = parser.sum()?;
        match parser.peek() {
            None => Ok(Expression { text: text.trim().to_owned(), root }),
            Some(_) => Err(parser.expected("an operator (+ - * /) or the end")),
        }
    }

    /// Value, or `None` if a metric is missing or the result is not a finite number.
    pub fn value(&self, mut metric: impl FnMut(&MetricName) -> Option<f64>) -> Option<f64> {
        self.root.value(&mut metric).filter(|v| v.is_finite())
    }

    /// Dimension, given that of the metrics; the error names the operands that do not match.
    pub(in crate::plan) fn dimension(
        &self,
        metric: impl Fn(&MetricName) -> Dimension,
    ) -> Result<Dimension, String> {
        self.root.dimension(&metric)
    }

    /// Metrics in the expression, in the order of the text, each once.
    pub fn metrics(&self) -> Vec<&MetricName> {
        let mut names = Vec::new();
        self.root.collect(&mut names);
        names
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.metric)?;
        let at: Vec<String> = self.at.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        if at.is_empty() { Ok(()) } else { write!(f, "[{}]", at.join(", ")) }
    }
}

impl Node {
    fn value(&self, metric: &mut impl FnMut(&MetricName) -> Option<f64>) -> Option<f64> {
        match self {
            Node::Number(n) => Some(*n),
            Node::Metric(name) => metric(name),
            Node::Negative(inner) => inner.value(metric).map(|v| -v),
            Node::Binary(left, operator, right) => {
                let (left, right) = (left.value(metric)?, right.value(metric)?);
                Some(match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                    // Of a figure that is none and another, none is the larger one.
                    Operator::Larger if left.is_nan() || right.is_nan() => f64::NAN,
                    Operator::Larger => left.max(right),
                })
            }
        }
    }

    fn dimension(&self, metric: &impl Fn(&MetricName) -> Dimension) -> Result<Dimension, String> {
        let (left, operator, right) = match self {
            Node::Number(_) => return Ok(Dimension::NONE),
            Node::Metric(name) => return Ok(metric(name)),
            Node::Negative(inner) => return inner.dimension(metric),
            Node::Binary(left, operator, right) => {
                (left.dimension(metric)?, operator, right.dimension(metric)?)
            }
        };
        match operator {
            Operator::Multiply => Ok(left * right),
            Operator::Divide => Ok(left / right),
            Operator::Add | Operator::Subtract | Operator::Larger if left == right => Ok(left),
            Operator::Add => Err(format!("{left} cannot be added to {right}")),
            Operator::Subtract => Err(format!("{right} cannot be taken from {left}")),
            Operator::Larger => Err(format!("{left} cannot be compared with {right}")),
        }
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a MetricName>) {
        match self {
            Node::Number(_) => {}
            Node::Metric(name) if names.contains(&name) => {}
            Node::Metric(name) => names.push(name),
            Node::Negative(inner) => inner.collect(names),
            Node::Binary(left, _, right) => {
                left.collect(names);
                right.collect(names);
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Node, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&[('+', Operator::Add), ('-', Operator::Subtract)]) {
            left = Node::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut left = self.factor()?;
        while let Some(operator) = self.operator(&[('*', Operator::Multiply), ('/', Operator::Divide)]) {
            left = Node::Binary(Box::new(left), operator, Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node, String> {
        match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(Node::Negative(Box::new(self.factor()?)))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.sign(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.metric(),
            _ => Err(self.expected("a number, a metric such as read.throughput, or '('")),
        }
    }

    fn number(&mut self) -> Result<Node, String> {
        let word = self.word(|c| c.is_ascii_digit() || c == '.');
        let text = &self.text[word.clone()];
        match text.parse() {
            Ok(number) => Ok(Node::Number(number)),
            Err(_) => Err(format!("'{text}' is not a number")),
        }
    }

    fn metric(&mut self) -> Result<Node, String> {
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
        let text = &self.text[word];
        match text.split_once('.') {
            None if text == "max" && self.peek() == Some('(') => self.larger(),
            Some((owner, metric)) if !owner.is_empty() && !metric.is_empty() => {
                let (owner, metric) = (owner.to_owned(), metric.to_owned());
                Ok(Node::Metric(MetricName { owner, metric, at: self.place()? }))
            }
            _ => Err(format!("'{text}' is not a metric; write load.metric, such as read.throughput")),
        }
    }

    /// Parses the arguments of `max`.
    fn larger(&mut self) -> Result<Node, String> {
        self.sign('(')?;
        let left = self.sum()?;
        self.sign(',')?;
        let right = self.sum()?;
        self.sign(')')?;
        Ok(Node::Binary(Box::new(left), Operator::Larger, Box::new(right)))
    }

    fn sign(&mut self, sign: char) -> Result<(), String> {
        if self.peek() != Some(sign) {
            return Err(self.expected(&format!("'{sign}'")));
        }
        self.at += sign.len_utf8();
        Ok(())
    }

    /// `[depth=8, delay=8ms]`, if it comes next.
    fn place(&mut self) -> Result<Vec<(String, String)>, String> {
        if self.peek() != Some('[') {
            return Ok(Vec::new());
        }
        self.at += 1;
        let inside = self.word(|c| c != ']');
        let inside = &self.text[inside];
        self.sign(']')?;
        let pair = |text: &str| match text.split_once('=') {
            Some((axis, value)) if !axis.trim().is_empty() && !value.trim().is_empty() => {
                Ok((axis.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(format!("'[{inside}]' is not a place; write [axis=value], such as [depth=8]")),
        };
        inside.split(',').map(pair).collect()
    }

    fn operator(&mut self, known: &[(char, Operator)]) -> Option<Operator> {
        let next = self.peek()?;
        let (_, operator) = known.iter().find(|(sign, _)| *sign == next)?;
        self.at += 1;
        Some(*operator)
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> std::ops::Range<usize> {
        let rest = &self.text[self.at..];
        let start = self.at;
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        start..self.at
    }

    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        rest.trim_start().chars().next()
    }

    fn expected(&mut self, what: &str) -> String {
        match self.peek() {
            Some(c) => {
                let place = self.text[..self.at].chars().count() + 1;
                format!("found '{c}' at character {place} of '{}', expected {what}", self.text)
            }
            None => format!("'{}' ends where {what} was expected", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        Expression::parse(text).unwrap().value(|name| match name.to_string().as_str() {
            "read.throughput" => Some(900.0),
            "line.goodput" => Some(1000.0),
            "idle.throughput" => Some(0.0),
            _ => None,
        })
    }

    #[test]
    fn a_metric_may_have_a_place() {
        let text = "read.iops[depth = 8, target.window=100] / read.iops";
        let expression = Expression::parse(text).unwrap();
        let names: Vec<String> = expression.metrics().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["read.iops[depth=8, target.window=100]", "read.iops"]);
        for (text, problem) in [
            ("read.iops[depth=8", "ends where ']' was expected"),
            ("read.iops[depth]", "'[depth]' is not a place; write [axis=value], such as [depth=8]"),
            ("read.iops[]", "'[]' is not a place"),
        ] {
            let found = Expression::parse(text).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }

    #[test]
    fn arithmetic() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 4 - 3", 3.0),
            ("16 / 4 / 2", 2.0),
            ("-2 * -3", 6.0),
            ("read.throughput / line.goodput", 0.9),
            ("2*(line.goodput-read.throughput)", 200.0),
            (" 0.5 ", 0.5),
            ("max(1, 2) * 3", 6.0),
            ("read.throughput / max (line.goodput, 2 * idle.throughput - 1)", 0.9),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_infinite_has_no_value() {
        assert_eq!(value("write.throughput / line.goodput"), None);
        assert_eq!(value("read.throughput / idle.throughput"), None);
        assert_eq!(value("idle.throughput / idle.throughput"), None);
    }

    #[test]
    fn names_are_listed_once() {
        let names = Expression::parse("a.x / (b.y + a.x)").unwrap();
        let names: Vec<String> = names.metrics().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a.x", "b.y"]);
    }

    #[test]
    fn times_and_rates_do_not_mix() {
        let dimension = |text: &str| {
            Expression::parse(text).unwrap().dimension(|name| match name.metric.as_str() {
                "rtt" => Dimension::TIME,
                _ => Dimension::RATE,
            })
        };
        assert_eq!(dimension("read.throughput / line.goodput"), Ok(Dimension::NONE));
        assert_eq!(dimension("1.25 * -line.rtt + line.rtt"), Ok(Dimension::TIME));
        assert_eq!(dimension("1 / line.rtt"), Ok(Dimension::FREQUENCY));
        assert_eq!(dimension("max(line.rtt, 2 * line.rtt)"), Ok(Dimension::TIME));
        assert_eq!(
            dimension("max(line.rtt, 1)").unwrap_err(),
            "a time cannot be compared with a ratio or a count"
        );
        assert_eq!(dimension("line.rtt + 1").unwrap_err(), "a time cannot be added to a ratio or a count");
        let bits = dimension("line.rtt * line.goodput - line.rtt").unwrap_err();
        assert_eq!(bits, "a time cannot be taken from in bit^1");
    }

    #[test]
    fn errors_show_the_place() {
        for (text, error) in [
            ("", "'' ends where a number, a metric such as read.throughput, or '(' was expected"),
            ("1 +", "'1 +' ends where a number, a metric such as read.throughput, or '(' was expected"),
            ("(1 + 2", "'(1 + 2' ends where ')' was expected"),
            ("1 2", "found '2' at character 3 of '1 2', expected an operator (+ - * /) or the end"),
            (
                "é",
                "found 'é' at character 1 of 'é', expected a number, a metric such as read.throughput, or '('",
            ),
            ("read", "'read' is not a metric; write load.metric, such as read.throughput"),
            ("1.2.3", "'1.2.3' is not a number"),
            ("max(1)", "found ')' at character 6 of 'max(1)', expected ','"),
            ("max", "'max' is not a metric; write load.metric, such as read.throughput"),
        ] {
            assert_eq!(Expression::parse(text).unwrap_err(), error);
        }
        assert!(Expression::parse(&"(".repeat(500)).is_err(), "nesting is bounded by the length");
    }
}
