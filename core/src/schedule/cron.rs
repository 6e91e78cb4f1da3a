//! A cron expression in a time zone: read, checked, and written in one spelling.

use std::sync::Arc;

use super::calendar::{DAY, Days};
use super::field::{Field, Kind};
use super::search::Search;
use super::shown;
use super::wall::{Times, Wall};
use super::zone::{self, CYCLE, CYCLE_START, Zone};
use crate::error::{Error, Result};

/// The longest expression in bytes: longer than any that a person would write.
const LONGEST: usize = 1024;

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const FIELDS: [Kind; 6] =
    [Kind::Second, Kind::Minute, Kind::Hour, Kind::DayOfMonth, Kind::Month, Kind::DayOfWeek];

/// Wall times of a zone, as a cron expression names them.
///
/// A clone shares everything with the original: ten thousand jobs in one zone share one table.
#[derive(Clone, Debug)]
pub struct Cron(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    expression: String,
    /// The expression in one spelling.
    canonical: String,
    wall: Wall,
    zone: Arc<Zone>,
    fixed: bool,
    warnings: Vec<String>,
}

impl Cron {
    /// Reads `minute hour day-of-month month day-of-week`, or with `seconds` the same with a field
    /// for seconds in front.
    ///
    /// A field is `*`, a number, a range `a-b`, a step `*/n` or `a-b/n`, or a list of these with
    /// commas. Months may be `JAN`-`DEC` and weekdays `SUN`-`SAT`; weekdays are 0-7, 0 and 7 are
    /// Sunday, and `SUN` as the end of a range is 7. The day-of-month field also takes `L` (the
    /// last day), `L-3` (three days before it), `LW` (the last Monday to Friday) and `15W` (the
    /// Monday to Friday nearest to the 15th, in its month); the day-of-week field takes `5L` (the
    /// last Friday) and `5#3` (the third Friday). The macros `@yearly @annually @monthly @weekly
    /// @daily @midnight @hourly` stand for a whole expression.
    ///
    /// If neither day field begins with `*`, a day that matches either of them matches; otherwise
    /// it has to match both. How a changed clock is read is told in the essay of the module.
    ///
    /// `zone` is a name of the IANA database (see [`zone::check`]).
    ///
    /// # Errors
    ///
    /// `INVALID_SCHEDULE` for everything else, with the field and what to write: fewer or more
    /// fields, anything that is not a whole token, ranges that run backwards, steps on a single
    /// number or larger than the field, dates that no calendar has, an unknown zone.
    pub fn new(expression: &str, zone: &str, seconds: bool) -> Result<Cron> {
        let refuse =
            |why: String| Error::schedule(format!("cron expression {}: {why}", shown(expression)));
        let fields = parse(expression, seconds).map_err(refuse)?;
        let zone = zone::load(zone)?;
        let [second, minute, hour, day, month, weekday] = &fields;
        let days = Days::new(day, month, weekday);
        let wall = Wall::new(days, Times::new(second, minute, hour));
        let fixed = !minute.begins_with_star() && !hour.begins_with_star();
        check_calendar(&wall, day, month, weekday).map_err(refuse)?;
        check_zone(&Search { wall: &wall, zone: &zone, fixed }).map_err(refuse)?;
        let warnings = warnings(expression, day, weekday);
        let canonical = canonical(&fields);
        let expression = expression.trim_ascii().to_owned();
        Ok(Cron(Arc::new(Parsed { expression, canonical, wall, zone, fixed, warnings })))
    }

    /// The expression as it was given, without spaces around it.
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// The expression in one spelling: macros written out, names as numbers, and five fields where
    /// the seconds are `0`. Expressions with one spelling have the same slots.
    pub fn canonical(&self) -> &str {
        &self.0.canonical
    }

    /// The zone, as the tables spell it.
    pub fn zone(&self) -> &str {
        self.0.zone.name()
    }

    /// What is allowed but probably not meant, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The first slot at or after `from`.
    pub(super) fn first_from(&self, from: i64) -> Option<i64> {
        self.search().first(up(from), i64::MAX).map(millis)
    }

    /// The last slot at or before `until`.
    pub(super) fn last_until(&self, until: i64) -> Option<i64> {
        self.search().last(i64::MIN, until.div_euclid(1000) + 1).map(millis)
    }

    /// How many slots lie in `[from, to)`.
    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        self.search().count(up(from), up(to))
    }

    pub(super) fn fingerprint(&self) -> String {
        format!("cron {} in {}", self.canonical(), self.zone())
    }

    pub(super) fn describe(&self) -> String {
        format!("cron '{}' in {}", self.expression(), self.zone())
    }

    fn search(&self) -> Search<'_> {
        Search { wall: &self.0.wall, zone: &self.0.zone, fixed: self.0.fixed }
    }
}

impl PartialEq for Cron {
    /// Equal definitions, however they are spelled.
    fn eq(&self, other: &Cron) -> bool {
        self.canonical() == other.canonical() && self.zone() == other.zone()
    }
}

/// Whole seconds at or after an instant in ms.
fn up(ms: i64) -> i64 {
    ms.div_euclid(1000) + i64::from(ms.rem_euclid(1000) != 0)
}

/// The ms of a second that is a slot, and so far from the ends of the numbers.
fn millis(second: i64) -> i64 {
    second * 1000
}

/// The six fields, the first of them `0` if seconds are off.
fn parse(expression: &str, seconds: bool) -> Result<[Field; 6], String> {
    if expression.len() > LONGEST {
        let length = expression.len();
        return Err(format!("it has {length} bytes, and at most {LONGEST} are allowed"));
    }
    let text = expression.trim_ascii();
    // A macro is whole, whether seconds are on or off.
    let (text, seconds) =
        if text.starts_with('@') { (macro_text(text)?, false) } else { (text, seconds) };
    let mut words: Vec<&str> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    check_count(&words, seconds)?;
    if words.len() == 5 {
        words.insert(0, "0");
    }
    let mut fields = Vec::with_capacity(6);
    for (kind, word) in FIELDS.into_iter().zip(words) {
        fields.push(Field::parse(kind, word)?);
    }
    // check_count has seen to it that there are six.
    fields.try_into().map_err(|_| "it has the wrong number of fields".to_owned())
}

fn macro_text(text: &str) -> Result<&'static str, String> {
    let found = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, expression)) = found {
        return Ok(expression);
    }
    let word = text.split([' ', '\t']).next().unwrap_or(text);
    if word.eq_ignore_ascii_case("@every") {
        return Err("intervals are not cron: use `every` with a duration such as '5m'".to_owned());
    }
    if word.eq_ignore_ascii_case("@reboot") {
        return Err("`@reboot` is not a time: replicas start at different moments. Run the code \
                    at the start of the application instead"
            .to_owned());
    }
    let known = MACROS.map(|(name, _)| name).join(" ");
    Err(format!("unknown macro: the macros are {known}, each alone"))
}

fn check_count(words: &[&str], seconds: bool) -> Result<(), String> {
    let needed = if seconds { 6 } else { 5 };
    if words.len() == needed {
        return Ok(());
    }
    if let Some(word) = words.first().filter(|word| word.contains("TZ=")) {
        return Err(format!(
            "{} is not a field: give the zone as the job's time zone, not in the expression",
            shown(word)
        ));
    }
    let count = match words.len() {
        0 => "it is empty".to_owned(),
        1 => "it has 1 field".to_owned(),
        n => format!("it has {n} fields"),
    };
    const FIVE: &str = "minute hour day-of-month month day-of-week";
    match (words.len(), seconds) {
        (6, false) => Err(format!(
            "{count}, and seconds are off. With `seconds` on it reads: {}. Without its last field, \
             `{}` reads: {}. Switch `seconds` on or write five fields ({FIVE})",
            reading(words, &FIELDS),
            shown_words(&words[..5]),
            reading(&words[..5], &FIELDS[1..]),
        )),
        (5, true) => Err(format!(
            "{count}, and with `seconds` on six are needed (second {FIVE}): write `0 {}`, or \
             switch `seconds` off to read: {}",
            shown_words(words),
            reading(words, &FIELDS[1..]),
        )),
        (7, _) => Err(format!("{count}; a year field does not exist. Allowed: {FIVE}")),
        (_, false) => {
            Err(format!("{count}, and exactly 5 are needed (6 with `seconds` on): {FIVE}"))
        }
        (_, true) => {
            Err(format!("{count}, and with `seconds` on exactly 6 are needed: second {FIVE}"))
        }
    }
}

/// Words side by side with what each would mean.
fn reading(words: &[&str], kinds: &[Kind]) -> String {
    let pairs = words.iter().zip(kinds);
    let parts: Vec<_> =
        pairs.map(|(word, kind)| format!("{} {}", kind.name(), shown(word))).collect();
    parts.join(", ")
}

fn shown_words(words: &[&str]) -> String {
    shown(&words.join(" ")).trim_matches('`').to_owned()
}

/// Refuses days that no calendar has, such as 30 February.
fn check_calendar(wall: &Wall, day: &Field, month: &Field, weekday: &Field) -> Result<(), String> {
    let from = CYCLE_START / DAY;
    if wall.first_day(from, from + CYCLE / DAY).is_some() {
        return Ok(());
    }
    if weekday.begins_with_star() && weekday.to_string() == "*" {
        return Err(format!(
            "it never matches: the day-of-month field `{day}` names no day that the month field \
             `{month}` has; change one of the two"
        ));
    }
    Err(format!(
        "it never matches: no day in the months of the month field `{month}` fits both the \
         day-of-month field `{day}` and the day-of-week field `{weekday}`; change one of them"
    ))
}

/// Refuses wall times that the zone's clock always skips.
fn check_zone(search: &Search<'_>) -> Result<(), String> {
    match search.first(CYCLE_START, CYCLE_START + CYCLE) {
        Some(_) => Ok(()),
        None => Err(format!(
            "it never matches: the clock of {} skips the times of the minute and hour fields on \
             all of these days; change the hour field, or write minutes and hours without a \
             leading `*`, which gives a slot at the end of the gap",
            search.zone.name()
        )),
    }
}

fn canonical(fields: &[Field; 6]) -> String {
    let all = fields.each_ref().map(Field::to_string);
    let from = usize::from(all[0] == "0");
    all[from..].join(" ")
}

fn warnings(expression: &str, day: &Field, weekday: &Field) -> Vec<String> {
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    let [.., day_text, _, weekday_text] = words.as_slice() else { return Vec::new() };
    if *day_text == "*" || *weekday_text == "*" {
        return Vec::new();
    }
    let stepped = [(day, *day_text), (weekday, *weekday_text)];
    let Some((field, text)) = stepped.into_iter().find(|(_, text)| text.starts_with("*/")) else {
        return Vec::new();
    };
    let range = if field.kind() == Kind::DayOfMonth { "1-31" } else { "0-6" };
    vec![format!(
        "cron expression {}: the {} field {} begins with `*`, so a day has to match both day \
         fields; if either of them should be enough, write {} instead",
        shown(expression),
        field.kind().name(),
        shown(text),
        shown(&text.replacen('*', range, 1)),
    )]
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;
