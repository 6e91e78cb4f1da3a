//! The spellings of Quartz for days that numbers cannot name: `L`, `L-3`, `LW`, `15W`, `5L`, `5#3`.

use super::field::{Item, Kind, parse_digits, parse_value};
use super::shown;

/// The spellings of Quartz; `None` if it is not one of them.
pub(super) fn parse_special(kind: Kind, text: &str) -> Result<Option<Item>, String> {
    let upper = text.to_ascii_uppercase();
    match kind {
        Kind::DayOfMonth => special_day(text, &upper),
        Kind::DayOfWeek => special_weekday(text, &upper),
        _ if upper == "L" => {
            Err("`L` (last) belongs in the day-of-month and day-of-week fields".to_owned())
        }
        _ => Ok(None),
    }
}

fn special_day(text: &str, upper: &str) -> Result<Option<Item>, String> {
    if upper == "L" {
        return Ok(Some(Item::LastDay));
    }
    if upper == "LW" {
        return Ok(Some(Item::LastWorkday));
    }
    if let Some(days) = upper.strip_prefix("L-") {
        let digits = !days.is_empty() && days.bytes().all(|byte| byte.is_ascii_digit());
        return match parse_digits(days) {
            Some(days @ 1..=30) if digits => Ok(Some(Item::BeforeLastDay(days))),
            _ => Err(format!("{} is not `L-1` to `L-30`", shown(text))),
        };
    }
    if let Some(day) = upper.strip_suffix('W') {
        return match parse_value(Kind::DayOfMonth, day) {
            Ok(day) => Ok(Some(Item::NearestWorkday(day))),
            Err(_) => Err(format!("{} is not `1W` to `31W`", shown(text))),
        };
    }
    if upper.contains('#') || upper.len() > 1 && upper.ends_with('L') {
        return Err(format!("{} belongs in the day-of-week field", shown(text)));
    }
    Ok(None)
}

fn special_weekday(text: &str, upper: &str) -> Result<Option<Item>, String> {
    if upper == "L" {
        return Err("`L` alone is unclear here: write `6` for Saturday, `6L` for the last \
                    Saturday of the month, or `L` in the day-of-month field"
            .to_owned());
    }
    if let Some(weekday) = upper.strip_suffix('L') {
        return match parse_value(Kind::DayOfWeek, weekday) {
            Ok(weekday) => Ok(Some(Item::LastOf(weekday % 7))),
            Err(_) => Err(format!("{} is not `0L` to `7L`", shown(text))),
        };
    }
    if let Some((weekday, nth)) = upper.split_once('#') {
        let digits = !nth.is_empty() && nth.bytes().all(|byte| byte.is_ascii_digit());
        return match (parse_value(Kind::DayOfWeek, weekday), parse_digits(nth)) {
            (Ok(weekday), Some(nth @ 1..=5)) if digits => Ok(Some(Item::Nth(weekday % 7, nth))),
            _ => Err(format!("{} is not a weekday, `#` and 1 to 5, as in `5#3`", shown(text))),
        };
    }
    if upper == "W" || upper == "LW" {
        return Err(format!("{} belongs in the day-of-month field", shown(text)));
    }
    Ok(None)
}
