//! Numbers as people read them: a unit that fits, a fixed number of places, thin gaps.

/// Text in place of a missing figure.
pub(crate) const NONE: &str = "–";

/// A number with fixed places and a narrow gap between groups of thousands.
pub(crate) fn fixed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// [`fixed`], or a dash.
pub(crate) fn optional(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| fixed(value, places))
}

/// About three significant digits, whatever the size.
pub(crate) fn plain(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => fixed(value, 0),
        v if v >= 10.0 => fixed(value, 1),
        v if v >= 1.0 => fixed(value, 2),
        v if v >= 0.001 => fixed(value, 3),
        v => fixed(value, (2.0 - v.log10().floor()).min(9.0) as usize),
    }
}

/// A value and its bound with so many places that they look equal only if they are.
pub(crate) fn against(value: f64, bound: f64) -> (String, String) {
    let (mut found, mut expected) = (plain(value), plain(bound));
    let mut places = 3;
    while found == expected && value != bound && places < 9 {
        places += 1;
        (found, expected) = (fixed(value, places), fixed(bound, places));
    }
    (found, expected)
}

/// A share in percent. Rounded down, so that 99.6 % never reads as all of it; a hundredth is one, however it is written.
pub(crate) fn percents(share: f64) -> String {
    fixed((share * 100.0 + 1e-9).floor(), 0)
}

/// [`percents`] with its unit, for a sentence.
pub(crate) fn percent(share: f64) -> String {
    match percents(share).as_str() {
        "0" if share > 0.0 => "less than 1\u{202f}%".to_owned(),
        number => format!("{number}\u{202f}%"),
    }
}

/// A duration with its unit: `100 ms`, `1.5 s`, `0 ms`, `5 min 12 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => (0.0, "ms"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s >= 120.0 => return format!("{} min {} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s => (s, "s"),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}\u{202f}{unit}")
}

/// Text that may stand in an element or in a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Seconds since 1970 as a date and time in UTC (proleptic Gregorian calendar).
pub(crate) fn date(unix_s: f64) -> String {
    let seconds = unix_s.clamp(0.0, 253_402_300_799.0) as i64;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counting days from 1 March of year 0 puts the leap day at the end of the year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + next;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(fixed(941_482.449, 1), "941\u{202f}482.4");
        assert_eq!(fixed(-1234.0, 0), "-1\u{202f}234");
        assert_eq!(fixed(0.5, 2), "0.50");
        for (share, text) in [(0.9799, "97 %"), (0.29, "29 %"), (0.004, "less than 1 %"), (0.0, "0 %")] {
            assert_eq!(percent(share).replace('\u{202f}', " "), text);
        }
        for (value, text) in
            [(0.0, "0"), (0.0002, "0.000200"), (0.012, "0.012"), (4.567, "4.57"), (1e-12, "0.000000000")]
        {
            assert_eq!(plain(value), text);
        }
        for (s, text) in [
            (0.0, "0 ms"),
            (0.1, "100 ms"),
            (0.016, "16 ms"),
            (1.5, "1.5 s"),
            (45e-6, "45 µs"),
            (312.4, "5 min 12 s"),
        ] {
            assert_eq!(duration(s).replace('\u{202f}', " "), text);
        }
    }

    #[test]
    fn a_near_miss_is_seen() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(against(0.97, 0.9), pair("0.970", "0.900"));
        assert_eq!(against(0.89996, 0.9), pair("0.89996", "0.90000"));
        assert_eq!(against(0.9, 0.9), pair("0.900", "0.900"));
    }

    #[test]
    fn dates() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(1_709_251_199.0), "2024-02-29 23:59 UTC");
        assert_eq!(date(1_795_294_500.0), "2026-11-21 20:55 UTC");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
    }
}
