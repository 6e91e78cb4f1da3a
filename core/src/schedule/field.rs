//! One field of a cron expression: its text, read whole or refused.

use std::fmt;

use super::quartz::parse_special;
use super::shown;

/// Which of the six fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Kind {
    /// The field's name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Second => "second",
            Kind::Minute => "minute",
            Kind::Hour => "hour",
            Kind::DayOfMonth => "day-of-month",
            Kind::Month => "month",
            Kind::DayOfWeek => "day-of-week",
        }
    }

    /// The smallest and the largest number that may be written.
    fn bounds(self) -> (u8, u8) {
        match self {
            Kind::Second | Kind::Minute => (0, 59),
            Kind::Hour => (0, 23),
            Kind::DayOfMonth => (1, 31),
            Kind::Month => (1, 12),
            Kind::DayOfWeek => (0, 7),
        }
    }

    /// The largest of the numbers that mean different things: 7 is Sunday once more.
    fn last(self) -> u8 {
        if self == Kind::DayOfWeek { 6 } else { self.bounds().1 }
    }

    /// How many different values there are.
    fn size(self) -> u8 {
        self.last() - self.bounds().0 + 1
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Kind::Month => &MONTHS,
            Kind::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    fn allowed(self) -> String {
        let (first, last) = self.bounds();
        let special = match self {
            Kind::DayOfMonth => ", `L`, `L-3`, `LW`, `15W`",
            Kind::Month => ", names JAN-DEC",
            Kind::DayOfWeek => " (0 and 7 are Sunday), names SUN-SAT, `5L`, `5#3`",
            _ => "",
        };
        format!("{first}-{last}{special}, `*`, ranges `a-b`, steps `*/n` and `a-b/n`, lists `a,b`")
    }
}

/// One entry of a field's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `*` or `*/step`.
    All { step: u8 },
    /// `a`, `a-b` or `a-b/step`; in day-of-week `b` may be 7.
    Range { first: u8, last: u8, step: u8 },
    /// `L`: the last day of the month.
    LastDay,
    /// `L-n`: so many days before the last one.
    BeforeLastDay(u8),
    /// `LW`: the last weekday (Monday to Friday) of the month.
    LastWorkday,
    /// `nW`: the weekday nearest to the day, within its month.
    NearestWorkday(u8),
    /// `nL`: the last such weekday of the month.
    LastOf(u8),
    /// `n#k`: the k-th such weekday of the month.
    Nth(u8, u8),
}

impl Item {
    fn value(kind: Kind, value: u8) -> Item {
        let value = if kind == Kind::DayOfWeek { value % 7 } else { value };
        Item::Range { first: value, last: value, step: 1 }
    }
}

impl fmt::Display for Item {
    /// The one spelling of the fingerprint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Item::All { step: 1 } => f.write_str("*"),
            Item::All { step } => write!(f, "*/{step}"),
            Item::Range { first, last, .. } if first == last => write!(f, "{first}"),
            Item::Range { first, last, step: 1 } => write!(f, "{first}-{last}"),
            Item::Range { first, last, step } => write!(f, "{first}-{last}/{step}"),
            Item::LastDay => f.write_str("L"),
            Item::BeforeLastDay(days) => write!(f, "L-{days}"),
            Item::LastWorkday => f.write_str("LW"),
            Item::NearestWorkday(day) => write!(f, "{day}W"),
            Item::LastOf(weekday) => write!(f, "{weekday}L"),
            Item::Nth(weekday, nth) => write!(f, "{weekday}#{nth}"),
        }
    }
}

/// A field that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    kind: Kind,
    items: Vec<Item>,
}

impl Field {
    /// Reads a field, or says what is wrong with it.
    pub(super) fn parse(kind: Kind, text: &str) -> Result<Field, String> {
        let items = text.split(',').map(|item| parse_item(kind, item)).collect::<Result<_, _>>();
        match items {
            Ok(items) => Ok(Field { kind, items }),
            Err(why) => Err(format!(
                "{} field {}: {why}; allowed: {}",
                kind.name(),
                shown(text),
                kind.allowed()
            )),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether the text begins with `*`, which is what Vixie cron calls unrestricted.
    pub(super) fn begins_with_star(&self) -> bool {
        matches!(self.items.first(), Some(Item::All { .. }))
    }

    /// The plain values as a bit mask; the special days of Quartz are not in it.
    pub(super) fn mask(&self) -> u64 {
        let (lowest, _) = self.kind.bounds();
        let mut mask = 0;
        for item in &self.items {
            let (first, last, step) = match *item {
                Item::All { step } => (lowest, self.kind.last(), step),
                Item::Range { first, last, step } => (first, last, step),
                _ => continue,
            };
            for value in (first..=last).step_by(usize::from(step)) {
                let value = if self.kind == Kind::DayOfWeek { value % 7 } else { value };
                mask |= 1 << value;
            }
        }
        mask
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

fn parse_item(kind: Kind, text: &str) -> Result<Item, String> {
    if text.is_empty() {
        return Err("an entry of the list is empty".to_owned());
    }
    if text == "?" {
        return Err("`?` is not used here: write `*`".to_owned());
    }
    let (base, step) = match text.split_once('/') {
        Some((base, step)) => (base, Some(parse_step(kind, text, step)?)),
        None => (text, None),
    };
    if base == "*" {
        return Ok(Item::All { step: step.unwrap_or(1) });
    }
    if let Some(item) = parse_special(kind, base)? {
        return match step {
            None => Ok(item),
            Some(_) => Err(format!("{} cannot have a step", shown(base))),
        };
    }
    let Some((first, last)) = base.split_once('-') else {
        let value = parse_value(kind, base)?;
        return match step {
            None => Ok(Item::value(kind, value)),
            Some(step) => Err(format!(
                "a step on the single value `{base}` is read differently by different programs: \
                 write `{value}-{}/{step}`, or `{value}` without the step",
                kind.last()
            )),
        };
    };
    if first.is_empty() || last.is_empty() || last.contains('-') {
        return Err(format!("{} is not a range `a-b`", shown(base)));
    }
    parse_range(kind, first, last, step)
}

fn parse_range(kind: Kind, low: &str, high: &str, step: Option<u8>) -> Result<Item, String> {
    let first = parse_value(kind, low)?;
    let mut last = parse_value(kind, high)?;
    if kind == Kind::DayOfWeek && high.eq_ignore_ascii_case("SUN") {
        if first == 0 {
            // Sunday only, or the whole week? Nobody can tell.
            return Err(format!("the range `{low}-{high}` is unclear: write `SUN` or `*`"));
        }
        last = 7;
    }
    if first > last {
        return Err(format!(
            "the range `{low}-{high}` runs backwards: write `{}`",
            unwrapped(kind, first, last, step, low, high)
        ));
    }
    if first == last {
        return Ok(Item::value(kind, first));
    }
    Ok(Item::Range { first, last, step: step.unwrap_or(1) })
}

/// What a range over the end of its field would have meant, in ranges that do not wrap.
fn unwrapped(kind: Kind, first: u8, last: u8, step: Option<u8>, low: &str, high: &str) -> String {
    let (lowest, _) = kind.bounds();
    let end = kind.last();
    if let Some(step) = step.filter(|step| *step > 1) {
        let mut values = Vec::new();
        let mut distance = 0;
        let whole = u16::from(kind.size()) + u16::from(last) - u16::from(first);
        while distance <= whole {
            let value = (u16::from(first - lowest) + distance) % u16::from(kind.size());
            values.push(value + u16::from(lowest));
            distance += u16::from(step);
        }
        values.sort_unstable();
        return values.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    }
    if kind == Kind::DayOfWeek && first == 7 {
        return if last == 0 { "0".to_owned() } else { format!("0-{last}") };
    }
    // Names are answered in names.
    let named = !low.as_bytes()[0].is_ascii_digit() && !high.as_bytes()[0].is_ascii_digit();
    let word = |value: u8| match kind.names().get(usize::from(value - lowest)) {
        Some(name) if named => (*name).to_owned(),
        _ => value.to_string(),
    };
    let range = |from: u8, to: u8| {
        if from == to { word(from) } else { format!("{}-{}", word(from), word(to)) }
    };
    format!("{},{}", range(first, end), range(lowest, last))
}

fn parse_step(kind: Kind, item: &str, text: &str) -> Result<u8, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the step of {} is not a whole number", shown(item)));
    }
    let size = kind.size();
    match parse_digits(text) {
        Some(0) => Err(format!("the step of {} is 0: the smallest is 1", shown(item))),
        Some(step) if step <= size => Ok(step),
        _ => Err(format!(
            "the step of {} is larger than the field, which has {size} values: a step starts anew \
             in each {}, so write a step of at most {size}, or use `every` for an interval that \
             runs through",
            shown(item),
            kind.starts_anew_in(),
        )),
    }
}

impl Kind {
    /// What contains all values of the field once.
    fn starts_anew_in(self) -> &'static str {
        match self {
            Kind::Second => "minute",
            Kind::Minute => "hour",
            Kind::Hour => "day",
            Kind::DayOfMonth => "month",
            Kind::Month => "year",
            Kind::DayOfWeek => "week",
        }
    }
}

/// A number or a name, the whole token.
pub(super) fn parse_value(kind: Kind, text: &str) -> Result<u8, String> {
    let (lowest, highest) = kind.bounds();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match parse_digits(text) {
            Some(value) if (lowest..=highest).contains(&value) => Ok(value),
            _ => Err(format!("{} is not in {lowest}-{highest}", shown(text))),
        };
    }
    let names = kind.names();
    let mut named = (lowest..).zip(names);
    if let Some((value, _)) = named.find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        return Ok(value);
    }
    let short = text.get(..3).and_then(|start| {
        let letters = text.bytes().all(|byte| byte.is_ascii_alphabetic());
        names.iter().find(|name| letters && name.eq_ignore_ascii_case(start))
    });
    Err(match short {
        Some(name) => format!("{} is not a name: names have three letters, `{name}`", shown(text)),
        None if names.is_empty() => format!("{} is not a whole number", shown(text)),
        None => format!("{} is not a whole number or a name", shown(text)),
    })
}

/// The number of some ASCII digits, if it is below 256.
pub(super) fn parse_digits(text: &str) -> Option<u8> {
    text.parse().ok()
}

#[cfg(test)]
#[path = "field_tests.rs"]
mod tests;
