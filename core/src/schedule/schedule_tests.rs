use super::{Schedule, shown, zone_tables};

const HOUR: i64 = 3_600_000;

#[test]
fn the_ends_of_the_numbers_are_answered() {
    let schedules = [
        Schedule::every(1000, 0).unwrap(),
        Schedule::cron("* * * * * *", "Pacific/Apia", true).unwrap(),
        Schedule::cron("0 0 29 2 *", "America/New_York", false).unwrap(),
        Schedule::at(0),
    ];
    for schedule in schedules {
        assert_eq!(schedule.next(i64::MAX), None);
        assert_eq!(schedule.prev(i64::MIN), None);
        assert!(schedule.next(i64::MIN).is_some());
        assert!(schedule.prev(i64::MAX).is_some());
        assert!(schedule.count(i64::MIN, i64::MAX) > 0);
        assert_eq!(schedule.count(i64::MAX, i64::MIN), 0);
        assert!(!schedule.newest(2, i64::MIN, i64::MAX).is_empty());
        assert!(schedule.newest(0, i64::MIN, i64::MAX).is_empty());
        schedule.period(i64::MAX);
        schedule.shortest_period(i64::MIN, 3);
    }
    assert_eq!(Schedule::at(i64::MAX).newest(5, 0, i64::MAX), [i64::MAX]);
    assert_eq!(Schedule::at(i64::MIN).newest(5, i64::MIN, 0), [i64::MIN]);
}

#[test]
fn a_period_is_the_distance_to_the_next_slot() {
    // Berlin's clock goes forward on 2026-03-29: that day has 23 hours.
    let noon = Schedule::cron("0 12 * * *", "Europe/Berlin", false).unwrap();
    let slot = noon.next(1_774_600_000_000).unwrap(); // 2026-03-27T11:00:00Z
    assert_eq!(noon.period(slot), Some(24 * HOUR));
    assert_eq!(noon.period(slot + 24 * HOUR), Some(23 * HOUR));
    assert_eq!(noon.shortest_period(slot, 10), Some(23 * HOUR));
    assert_eq!(noon.shortest_period(slot, 0), None);
    assert_eq!(Schedule::at(0).period(0), None);
    assert_eq!(Schedule::at(0).shortest_period(-1, 5), None);
    assert_eq!(Schedule::every(60_000, 0).unwrap().shortest_period(0, 1), Some(60_000));
}

#[test]
fn the_newest_slots_include_both_ends_and_come_oldest_first() {
    let hourly = Schedule::cron("0 * * * *", "UTC", false).unwrap();
    assert_eq!(hourly.newest(9, HOUR, 3 * HOUR), [HOUR, 2 * HOUR, 3 * HOUR]);
    assert_eq!(hourly.newest(2, HOUR, 3 * HOUR), [2 * HOUR, 3 * HOUR]);
    assert!(hourly.newest(2, 3 * HOUR, HOUR).is_empty());
}

#[test]
fn fingerprints_tell_kinds_apart() {
    let fingerprints = [
        Schedule::every(60_000, 0).unwrap().fingerprint(),
        Schedule::every(60_000, 1).unwrap().fingerprint(),
        Schedule::cron("* * * * *", "UTC", false).unwrap().fingerprint(),
        Schedule::cron("* * * * *", "Etc/UTC", false).unwrap().fingerprint(),
        Schedule::at(60_000).fingerprint(),
    ];
    let different: std::collections::BTreeSet<_> = fingerprints.iter().collect();
    assert_eq!(different.len(), fingerprints.len());
}

#[test]
fn only_cron_has_a_zone() {
    let cron = Schedule::cron("* * * * *", "europe/paris", false).unwrap();
    assert_eq!(cron.zone(), Some("Europe/Paris"));
    assert_eq!(Schedule::at(0).zone(), None);
    assert!(!zone_tables().is_empty());
}

#[test]
fn texts_in_messages_are_printable_and_short() {
    assert_eq!(shown("a\nb"), "`a\\nb`");
    assert!(shown(&"x".repeat(5000)).chars().count() < 100);
}
