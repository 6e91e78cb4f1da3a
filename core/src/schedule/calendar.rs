//! Which days of a month an expression names, as a bit mask; and days as numbers.

use jiff::civil::{Date, date};
use jiff::tz::Offset;

use super::field::{Field, Item};

/// Seconds of a day on the wall.
pub(super) const DAY: i64 = 86_400;

/// The number of a date, counted from 1970-01-01.
pub(super) fn day_number(date: Date) -> i64 {
    // Cannot fail: the dates used here end days before those that jiff can name.
    let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0));
    midnight.map_or(i64::MAX / DAY, |midnight| midnight.as_second().div_euclid(DAY))
}

/// A month of a year, as the calendar goes on without zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Month {
    year: i16,
    month: i8,
}

impl Month {
    #[cfg(test)]
    pub(super) fn new(year: i16, month: i8) -> Month {
        Month { year, month }
    }

    /// The month of a day, and the day's number in it, from 1.
    pub(super) fn of_day(day: i64) -> (Month, u32) {
        let midnight = jiff::Timestamp::from_second(day.saturating_mul(DAY));
        // Days are clamped to the years 1 to 9999 before they come here.
        let date = midnight.map_or(Date::MIN, |midnight| Offset::UTC.to_datetime(midnight).date());
        (Month { year: date.year(), month: date.month() }, u32::from(date.day().unsigned_abs()))
    }

    /// The number of the day before the first, so that adding a day of the month gives its number.
    pub(super) fn base(self) -> i64 {
        day_number(date(self.year, self.month, 1)) - 1
    }

    /// Whether the month lies behind the last one that has dates.
    pub(super) fn is_after_all(self) -> bool {
        self.year > Date::MAX.year()
    }

    pub(super) fn next(self) -> Month {
        match self.month {
            12 => Month { year: self.year + 1, month: 1 },
            month => Month { year: self.year, month: month + 1 },
        }
    }

    pub(super) fn prev(self) -> Month {
        match self.month {
            1 => Month { year: self.year - 1, month: 12 },
            month => Month { year: self.year, month: month - 1 },
        }
    }
}

/// The day-of-month, month and day-of-week fields together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Days {
    months: u64,
    days: u64,
    weekdays: u64,
    special_days: Vec<Item>,
    special_weekdays: Vec<Item>,
    /// Either day field is enough (POSIX), because neither begins with `*`.
    either: bool,
}

impl Days {
    pub(super) fn new(day: &Field, month: &Field, weekday: &Field) -> Days {
        let special = |field: &Field| {
            let plain = |item: &Item| matches!(item, Item::All { .. } | Item::Range { .. });
            field.items().iter().copied().filter(|item| !plain(item)).collect()
        };
        Days {
            months: month.mask(),
            days: day.mask(),
            weekdays: weekday.mask(),
            special_days: special(day),
            special_weekdays: special(weekday),
            either: !day.begins_with_star() && !weekday.begins_with_star(),
        }
    }

    /// Whether every day matches, so that days can be counted by subtraction.
    pub(super) fn every_day(&self) -> bool {
        const ALL_DAYS: u64 = (1 << 32) - 2;
        let (all_days, all_weekdays) = (self.days == ALL_DAYS, self.weekdays == 0x7f);
        let day = if self.either { all_days || all_weekdays } else { all_days && all_weekdays };
        self.months == (1 << 13) - 2 && day
    }

    /// Whether the month field names the month.
    pub(super) fn has_month(&self, month: Month) -> bool {
        self.months >> month.month & 1 == 1
    }

    /// The matching days of a month: bit `d` is day `d`.
    pub(super) fn mask(&self, month: Month) -> u64 {
        if !self.has_month(month) {
            return 0;
        }
        #[cfg(test)]
        LOOKED_AT.with(|months| months.set(months.get() + 1));
        let shape = Shape::of(month);
        let days = self.days | shape.specials(&self.special_days);
        let weekdays = shape.weekdays(self.weekdays) | shape.specials(&self.special_weekdays);
        let both = if self.either { days | weekdays } else { days & weekdays };
        both & shape.all()
    }
}

/// What a month looks like on the wall calendar.
struct Shape {
    length: u32,
    /// The weekday of the first, Sunday is 0.
    first: u32,
}

impl Shape {
    fn of(month: Month) -> Shape {
        let first = date(month.year, month.month, 1);
        Shape {
            length: u32::from(first.days_in_month().unsigned_abs()),
            first: u32::from(first.weekday().to_sunday_zero_offset().unsigned_abs()),
        }
    }

    fn all(&self) -> u64 {
        (1 << (self.length + 1)) - 2
    }

    fn weekday(&self, day: u32) -> u32 {
        (self.first + day - 1) % 7
    }

    /// The first day that has a weekday.
    fn first_of(&self, weekday: u32) -> u32 {
        (weekday + 7 - self.first) % 7 + 1
    }

    /// All days whose weekday is in the mask.
    fn weekdays(&self, mask: u64) -> u64 {
        // One bit per week, from day 1.
        const WEEKLY: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let mut days = 0;
        for weekday in 0..7 {
            if mask >> weekday & 1 == 1 {
                days |= WEEKLY << self.first_of(weekday);
            }
        }
        days & self.all()
    }

    fn specials(&self, items: &[Item]) -> u64 {
        items.iter().fold(0, |mask, item| mask | self.special(*item))
    }

    fn special(&self, item: Item) -> u64 {
        let day = match item {
            Item::LastDay => Some(self.length),
            Item::BeforeLastDay(days) => self.length.checked_sub(u32::from(days)),
            Item::LastWorkday => self.nearest_workday(self.length),
            Item::NearestWorkday(day) => self.nearest_workday(u32::from(day)),
            Item::LastOf(weekday) => {
                let first = self.first_of(u32::from(weekday));
                Some(first + (self.length - first) / 7 * 7)
            }
            Item::Nth(weekday, nth) => {
                Some(self.first_of(u32::from(weekday)) + 7 * (u32::from(nth) - 1))
            }
            Item::All { .. } | Item::Range { .. } => None,
        };
        // Day 0 and days after the last one do not exist in this month.
        day.filter(|day| (1..=self.length).contains(day)).map_or(0, |day| 1 << day)
    }

    /// The Monday to Friday nearest to a day, without leaving the month.
    fn nearest_workday(&self, day: u32) -> Option<u32> {
        if day > self.length {
            return None;
        }
        Some(match self.weekday(day) {
            6 if day == 1 => 3,
            6 => day - 1,
            0 if day == self.length => day - 2,
            0 => day + 1,
            _ => day,
        })
    }
}

#[cfg(test)]
thread_local! {
    static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many months this thread has looked at: the measure of the tests for work done.
#[cfg(test)]
pub(super) fn months_looked_at() -> u64 {
    LOOKED_AT.with(std::cell::Cell::get)
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
