use super::Schedule;

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn slots(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let mut slots = Vec::new();
    let mut at = ms(after);
    for _ in 0..count {
        at = schedule.next(at).unwrap();
        slots.push(jiff::Timestamp::from_millisecond(at).unwrap().to_string());
    }
    slots
}

#[test]
fn a_skipped_wall_time_has_its_slot_at_the_end_of_the_gap() {
    let nightly = Schedule::cron("0 2 * * *", "America/Los_Angeles", false).unwrap();
    assert_eq!(
        slots(&nightly, "2025-03-09T09:00:00Z", 2),
        ["2025-03-09T10:00:00Z", "2025-03-10T09:00:00Z"]
    );
    let leap = Schedule::cron("0 0 29 2 *", "UTC", false).unwrap();
    assert_eq!(slots(&leap, "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
    assert_eq!(leap.prev(i64::MIN), None);
    assert_eq!(leap.next(i64::MAX), None);
    println!("{:?} {:?}", leap.next(i64::MIN), leap.prev(i64::MAX));
    println!("{:?}", leap.count(i64::MIN, i64::MAX));
    println!("{:?}", nightly.count(i64::MIN, i64::MAX));
}
