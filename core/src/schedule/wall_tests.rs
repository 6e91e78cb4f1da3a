use super::{Times, Wall};
use crate::random::Random;
use crate::schedule::calendar::{DAY, Days};
use crate::schedule::field::{Field, Kind};

fn wall(text: &str) -> Wall {
    let words: Vec<_> = text.split(' ').collect();
    let field = |index: usize, kind| Field::parse(kind, words[index]).unwrap();
    let days =
        Days::new(&field(3, Kind::DayOfMonth), &field(4, Kind::Month), &field(5, Kind::DayOfWeek));
    let times = Times::new(&field(0, Kind::Second), &field(1, Kind::Minute), &field(2, Kind::Hour));
    Wall::new(days, times)
}

/// All matching wall times in `[from, until)`, asked for one by one.
fn walked(wall: &Wall, from: i64, until: i64) -> Vec<i64> {
    (from..until).filter(|second| wall.first(*second, second + 1).is_some()).collect()
}

#[test]
fn first_last_and_count_agree_on_every_stretch() {
    for text in ["7,50 */25 3-4,23 * * *", "0 0 0 */2 * *", "59 59 23 L * *", "* 30 12 1,2 1 *"] {
        let wall = wall(text);
        let all = walked(&wall, -3 * DAY, 3 * DAY);
        let random = Random::seeded(1);
        for _ in 0..2000 {
            let from = random.up_to(6 * DAY) - 3 * DAY;
            let until = random.up_to(6 * DAY) - 3 * DAY;
            let within: Vec<_> =
                all.iter().copied().filter(|wall| from <= *wall && *wall < until).collect();
            assert_eq!(wall.first(from, until), within.first().copied(), "{text} {from} {until}");
            assert_eq!(wall.last(from, until), within.last().copied(), "{text} {from} {until}");
            assert_eq!(wall.count(from, until), within.len() as u64, "{text} {from} {until}");
        }
    }
}

#[test]
fn centuries_are_counted_by_the_calendar() {
    let leap_days = wall("0 0 0 29 2 *");
    // From 1970 on, 400 years have 97 leap days.
    assert_eq!(leap_days.count(0, 400 * 31_556_952), 97);
    assert_eq!(leap_days.count(0, 4000 * 31_556_952), 970);
}

#[test]
fn a_search_ends_with_the_calendar() {
    let last = 253_402_128_000; // 9999-12-30, the last day that has slots
    assert_eq!(wall("0 0 0 1 1 *").first(last - 20 * DAY, last + 1), None);
    assert_eq!(wall("0 0 0 30 12 *").first(last - 20 * DAY, last + 1), Some(last));
    let first = -62_135_596_800; // 0001-01-01
    assert_eq!(wall("0 0 0 31 12 *").last(first, first + DAY), None);
}
