use jiff::civil::date;

use super::{Days, Month, day_number};
use crate::schedule::field::{Field, Kind};

fn days(day: &str, month: &str, weekday: &str) -> Days {
    let field = |kind, text| Field::parse(kind, text).unwrap();
    Days::new(
        &field(Kind::DayOfMonth, day),
        &field(Kind::Month, month),
        &field(Kind::DayOfWeek, weekday),
    )
}

fn in_month(days: &Days, year: i16, month: i8) -> Vec<u32> {
    let mask = days.mask(Month::new(year, month));
    (0..32).filter(|day| mask >> day & 1 == 1).collect()
}

#[test]
fn day_numbers_count_from_1970() {
    assert_eq!(day_number(date(1970, 1, 1)), 0);
    assert_eq!(day_number(date(1969, 12, 31)), -1);
    assert_eq!(day_number(date(2000, 3, 1)), 11_017);
    for number in [-719_162, -1, 0, 11_016, 2_932_895] {
        let (month, day) = Month::of_day(number);
        assert_eq!(month.base() + i64::from(day), number);
    }
}

#[test]
fn months_follow_each_other_over_the_year() {
    assert_eq!(Month::new(2025, 12).next(), Month::new(2026, 1));
    assert_eq!(Month::new(2026, 1).prev(), Month::new(2025, 12));
}

#[test]
fn a_day_past_the_end_of_its_month_does_not_exist() {
    let days = days("29-31", "*", "*");
    assert!(in_month(&days, 2025, 2).is_empty());
    assert_eq!(in_month(&days, 2024, 2), [29]);
    assert!(in_month(&days, 2100, 2).is_empty());
    assert_eq!(in_month(&days, 2025, 4), [29, 30]);
}

#[test]
fn either_day_field_is_enough_unless_one_begins_with_a_star() {
    // February 2026 begins on a Sunday.
    assert_eq!(in_month(&days("13", "*", "5"), 2026, 2), [6, 13, 20, 27]);
    assert_eq!(in_month(&days("13", "*", "*"), 2026, 2), [13]);
    assert_eq!(in_month(&days("*", "*", "5"), 2026, 2), [6, 13, 20, 27]);
    assert_eq!(in_month(&days("*/2", "*", "5"), 2026, 2), [13, 27]);
    assert_eq!(in_month(&days("13,14", "*", "*/5"), 2026, 2), [13]);
}

#[test]
fn weekdays_near_a_day_stay_in_its_month() {
    // 1 August 2026 is a Saturday, 31 May 2026 a Sunday.
    assert_eq!(in_month(&days("1W", "*", "*"), 2026, 8), [3]);
    assert_eq!(in_month(&days("31W", "*", "*"), 2026, 5), [29]);
    assert_eq!(in_month(&days("15W", "*", "*"), 2026, 8), [14]);
    assert_eq!(in_month(&days("16W", "*", "*"), 2026, 8), [17]);
    assert!(in_month(&days("31W", "*", "*"), 2026, 6).is_empty());
    assert_eq!(in_month(&days("LW", "*", "*"), 2026, 5), [29]);
}

#[test]
fn last_and_numbered_weekdays() {
    // May 2026 has five Fridays, Saturdays and Sundays.
    assert_eq!(in_month(&days("*", "*", "5L,5#1"), 2026, 5), [1, 29]);
    assert_eq!(in_month(&days("*", "*", "0#5"), 2026, 5), [31]);
    assert!(in_month(&days("*", "*", "1#5"), 2026, 5).is_empty());
    assert_eq!(in_month(&days("L,L-30", "*", "*"), 2026, 5), [1, 31]);
    assert!(in_month(&days("L-30", "*", "*"), 2026, 4).is_empty());
}

#[test]
fn every_day_is_known_as_such() {
    for (day, weekday) in [("*", "*"), ("1-31", "1"), ("5", "0-6"), ("*/1", "1-7")] {
        assert!(days(day, "*", weekday).every_day(), "{day} {weekday}");
    }
    for (day, month, weekday) in [("1-30", "*", "*"), ("*", "1-11", "*"), ("*", "*", "1-6")] {
        assert!(!days(day, month, weekday).every_day(), "{day} {month} {weekday}");
    }
}
