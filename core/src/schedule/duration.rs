//! Durations as text: `1s`, `1h30m`, `250ms`.

use crate::error::{Error, Result};

/// The units from long to short, with their length in ms. A day is 24 hours, never a calendar day.
const UNITS: [(&str, i64); 6] = [
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const ALLOWED: &str = "a duration is whole numbers with the units w, d, h, m, s, ms, each at most \
                       once and the longest first: '500ms', '90s', '1h30m'";

/// Milliseconds of a duration text: `'1s'` is 1000, `'1h30m'` is 5 400 000.
///
/// The units are `w d h m s ms`, each at most once, the longest first; `d` is 24 hours and `w` is
/// 7 of them. The result lies in `0..=i64::MAX`.
///
/// # Errors
///
/// `INVALID_OPTION` for everything else: an empty text, a bare number, a sign, a decimal point,
/// spaces, unknown or repeated units, and lengths above `i64::MAX` ms. The message shows what was
/// given and what to write.
///
/// ```
/// use anarchon::schedule::duration::parse_ms;
/// assert_eq!(parse_ms("1h30m").unwrap(), 5_400_000);
/// assert!(parse_ms("90").unwrap_err().message().contains("'90s'"));
/// ```
pub fn parse_ms(text: &str) -> Result<i64> {
    if text.is_empty() {
        return Err(refuse(text, "it is empty"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let hint = if text.len() <= 18 { text } else { "60" };
        return Err(refuse(text, &format!("the unit is missing: write '{hint}s' or '{hint}ms'")));
    }
    let mut total: i64 = 0;
    let mut rest = text;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(refuse(text, &why_not_a_number(rest)));
        }
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let Some(index) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(refuse(text, &why_not_a_unit(unit, tail)));
        };
        if index < next_unit {
            let why = format!("the unit '{unit}' comes twice, or after a shorter one");
            return Err(refuse(text, &why));
        }
        let part = number.parse::<i64>().ok().and_then(|n| n.checked_mul(UNITS[index].1));
        total = part
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| refuse(text, "it is longer than the largest number of ms (2^63 - 1)"))?;
        next_unit = index + 1;
        rest = tail;
    }
    Ok(total)
}

/// The shortest text for a number of ms: the inverse of [`parse_ms`] for `ms >= 0`.
///
/// `0` is `0ms`; a negative number gets a minus sign, which [`parse_ms`] refuses.
///
/// ```
/// use anarchon::schedule::duration::format_ms;
/// assert_eq!(format_ms(5_400_000), "1h30m");
/// ```
pub fn format_ms(ms: i64) -> String {
    if ms == 0 {
        return "0ms".to_owned();
    }
    let mut text = if ms < 0 { "-".to_owned() } else { String::new() };
    let mut left = ms.unsigned_abs();
    for (name, length) in UNITS {
        let length = length.unsigned_abs();
        if left >= length {
            text.push_str(&(left / length).to_string());
            text.push_str(name);
            left %= length;
        }
    }
    text
}

fn why_not_a_number(rest: &str) -> String {
    match rest.chars().next() {
        Some('-' | '+') => "a duration has no sign".to_owned(),
        Some(' ') => "it has spaces".to_owned(),
        Some(other) => format!("a number is expected where {other:?} stands"),
        None => "a number is expected at its end".to_owned(),
    }
}

fn why_not_a_unit(unit: &str, tail: &str) -> String {
    if unit.is_empty() {
        return match tail.chars().next() {
            Some('.' | ',') => "a fraction is not allowed: write '1h30m' for 1.5h".to_owned(),
            Some(' ') => "it has spaces".to_owned(),
            Some(other) => format!("a unit is expected where {other:?} stands"),
            None => "the unit of the last number is missing".to_owned(),
        };
    }
    let shown: String = unit.chars().take(20).collect();
    format!("'{shown}' is not a unit")
}

fn refuse(text: &str, why: &str) -> Error {
    Error::option(format!("duration {}: {why}; {ALLOWED}", super::shown(text)))
}

#[cfg(test)]
#[path = "duration_tests.rs"]
mod tests;
