//! Matching wall times, without zones: found and counted field by field.
//!
//! A *wall time* here is the number of seconds that a clock on the wall is past 1970-01-01
//! 00:00:00 on the wall.

use super::calendar::{DAY, Days, Month};
use super::field::Field;
use super::zone::CYCLE;

/// The hour, minute and second fields together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    hours: u64,
    minutes: u64,
    seconds: u64,
}

impl Times {
    pub(super) fn new(second: &Field, minute: &Field, hour: &Field) -> Times {
        Times { hours: hour.mask(), minutes: minute.mask(), seconds: second.mask() }
    }

    fn per_day(&self) -> u64 {
        ones(self.hours) * ones(self.minutes) * ones(self.seconds)
    }

    /// The first matching second of the day at or after one.
    fn first_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = lowest(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = lowest(self.minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + lowest(self.seconds, 0)?);
            }
        }
        let hour = lowest(self.hours, hour + 1)?;
        Some(hour * 3600 + lowest(self.minutes, 0)? * 60 + lowest(self.seconds, 0)?)
    }

    /// The last matching second of the day at or before one.
    fn last_until(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = highest(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = highest(self.minutes, minute - 1) {
                return Some(hour * 3600 + minute * 60 + highest(self.seconds, 59)?);
            }
        }
        let hour = highest(self.hours, hour - 1)?;
        Some(hour * 3600 + highest(self.minutes, 59)? * 60 + highest(self.seconds, 59)?)
    }

    /// How many seconds of the day match before one.
    fn count_before(&self, second: i64) -> u64 {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut count = ones(below(self.hours, hour)) * ones(self.minutes) * ones(self.seconds);
        if has(self.hours, hour) {
            count += ones(below(self.minutes, minute)) * ones(self.seconds);
            if has(self.minutes, minute) {
                count += ones(below(self.seconds, second));
            }
        }
        count
    }
}

/// All fields together: a set of wall times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wall {
    days: Days,
    times: Times,
}

impl Wall {
    pub(super) fn new(days: Days, times: Times) -> Wall {
        Wall { days, times }
    }

    /// The first matching wall time in `[from, until)`.
    pub(super) fn first(&self, from: i64, until: i64) -> Option<i64> {
        if from >= until {
            return None;
        }
        let (mut day, second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        if self.day_matches(day)
            && let Some(second) = self.times.first_from(second)
        {
            return Some(day * DAY + second).filter(|wall| *wall < until);
        }
        day = self.first_day(day + 1, (until - 1).div_euclid(DAY))?;
        let wall = day * DAY + self.times.first_from(0)?;
        Some(wall).filter(|wall| *wall < until)
    }

    /// The last matching wall time in `[from, until)`.
    pub(super) fn last(&self, from: i64, until: i64) -> Option<i64> {
        if from >= until {
            return None;
        }
        let (mut day, second) = ((until - 1).div_euclid(DAY), (until - 1).rem_euclid(DAY));
        if self.day_matches(day)
            && let Some(second) = self.times.last_until(second)
        {
            return Some(day * DAY + second).filter(|wall| *wall >= from);
        }
        day = self.last_day(from.div_euclid(DAY), day - 1)?;
        let wall = day * DAY + self.times.last_until(DAY - 1)?;
        Some(wall).filter(|wall| *wall >= from)
    }

    /// How many wall times match in `[from, until)`.
    pub(super) fn count(&self, from: i64, until: i64) -> u64 {
        if from >= until {
            return 0;
        }
        let (first, last) = (from.div_euclid(DAY), until.div_euclid(DAY));
        let before = |day: i64, second: i64| match self.day_matches(day) {
            true => self.times.count_before(second),
            false => 0,
        };
        let whole = self.count_days(first, last) * self.times.per_day();
        whole + before(last, until.rem_euclid(DAY)) - before(first, from.rem_euclid(DAY))
    }

    fn day_matches(&self, day: i64) -> bool {
        let (month, day) = Month::of_day(day);
        self.days.mask(month) >> day & 1 == 1
    }

    /// The first matching day in `from..=until`.
    pub(super) fn first_day(&self, from: i64, until: i64) -> Option<i64> {
        if from > until {
            return None;
        }
        let (mut month, mut day) = Month::of_day(from);
        let mut base = from - i64::from(day);
        loop {
            if let Some(found) = lowest(self.days.mask(month), i64::from(day)) {
                return Some(base + found).filter(|found| *found <= until);
            }
            // On to the next month that the month field names.
            month = month.next();
            while !self.days.has_month(month) {
                month = month.next();
            }
            if month.is_after_all() {
                return None;
            }
            (base, day) = (month.base(), 1);
            if base >= until {
                return None;
            }
        }
    }

    /// The last matching day in `from..=until`.
    fn last_day(&self, from: i64, until: i64) -> Option<i64> {
        if from > until {
            return None;
        }
        let (mut month, mut day) = Month::of_day(until);
        let mut base = until - i64::from(day);
        loop {
            if let Some(found) = highest(self.days.mask(month), i64::from(day)) {
                return Some(base + found).filter(|found| *found >= from);
            }
            month = month.prev();
            while !self.days.has_month(month) {
                month = month.prev();
            }
            (base, day) = (month.base(), 31);
            if base + 31 < from {
                return None;
            }
        }
    }

    /// How many days match in `from..until`.
    fn count_days(&self, from: i64, until: i64) -> u64 {
        const CYCLE_DAYS: i64 = CYCLE / DAY;
        if self.days.every_day() {
            return (until - from).unsigned_abs();
        }
        let cycles = (until - from) / CYCLE_DAYS;
        let rest = self.count_days_by_month(from + cycles * CYCLE_DAYS, until);
        match cycles {
            0 => rest,
            // After 400 years the calendar is the same again.
            _ => {
                let cycle = self.count_days_by_month(from, from + CYCLE_DAYS);
                rest + cycle * cycles.unsigned_abs()
            }
        }
    }

    fn count_days_by_month(&self, from: i64, until: i64) -> u64 {
        if from >= until {
            return 0;
        }
        let (mut month, day) = Month::of_day(from);
        let (last_month, last_day) = Month::of_day(until);
        // The first month is counted whole, and the days before `from` are taken off again.
        let before = ones(below(self.days.mask(month), i64::from(day)));
        let mut count = 0;
        while month != last_month {
            count += ones(self.days.mask(month));
            month = month.next();
        }
        count + ones(below(self.days.mask(month), i64::from(last_day))) - before
    }
}

fn ones(mask: u64) -> u64 {
    u64::from(mask.count_ones())
}

fn has(mask: u64, bit: i64) -> bool {
    mask >> bit & 1 == 1
}

/// The part of a mask below a bit (0 to 63).
fn below(mask: u64, bit: i64) -> u64 {
    mask & ((1 << bit) - 1)
}

/// The lowest bit of a mask at or above one (0 to 63).
fn lowest(mask: u64, from: i64) -> Option<i64> {
    let rest = mask >> from;
    (rest != 0).then(|| from + i64::from(rest.trailing_zeros()))
}

/// The highest bit of a mask at or below one (-1 to 62).
fn highest(mask: u64, until: i64) -> Option<i64> {
    let rest = below(mask, until + 1);
    (rest != 0).then(|| 63 - i64::from(rest.leading_zeros()))
}

#[cfg(test)]
#[path = "wall_tests.rs"]
mod tests;
