//! What holds for every schedule, zone and instant.

use anarchon::schedule::Schedule;
use jiff::ToSpan;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::{prop_assume, proptest};

use super::config;
use super::oracle::{Expression, changes, expressions, moments};

/// The schedule of an expression; none for one that never matches, such as 30 February.
fn schedule(expression: &Expression, zone: &str) -> Option<Schedule> {
    let text = expression.text();
    match Schedule::cron(&text, zone, expression.seconds.is_some()) {
        Ok(schedule) => Some(schedule),
        Err(error) if error.message().contains("never matches") => None,
        Err(error) => panic!("{text} is refused: {error}"),
    }
}

/// Instants of every size, the ends of the number range among them.
fn instants() -> impl Strategy<Value = i64> {
    const YEAR: i64 = 31_556_952_000;
    prop_oneof![
        6 => -200 * YEAR..600 * YEAR,
        2 => -3000 * YEAR..9000 * YEAR,
        1 => any::<i64>(),
        1 => prop_oneof![i64::MIN..i64::MIN + 2000, i64::MAX - 2000..=i64::MAX],
    ]
}

fn schedules() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        1 => (100..100_000_000_000i64, any::<i64>())
            .prop_map(|(interval, offset)| Schedule::every(interval, offset).unwrap()),
        1 => (100..i64::MAX, any::<i64>())
            .prop_map(|(interval, offset)| Schedule::every(interval, offset).unwrap()),
        1 => any::<i64>().prop_map(Schedule::at),
        6 => (expressions(true), moments())
            .prop_filter_map("never matches", |(expression, (_, name, _))| schedule(&expression, name)),
    ]
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn slots_are_those_of_the_oracle(expression in expressions(false), moment in moments()) {
        let (zone, name, middle) = moment;
        let schedule = schedule(&expression, name);
        let (from, until) = (middle - 36.hours(), middle + 36.hours());
        let expected = expression.slots(&zone, from, until);
        prop_assume!(schedule.is_some() || expected.is_empty());
        if let Some(schedule) = schedule {
            compare(&schedule, &expected, from.as_millisecond(), until.as_millisecond())?;
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn slots_around_a_changed_clock_are_those_of_the_oracle(case in changes()) {
        let (expression, zone, name, change) = case;
        let (from, until) = (change - 7.hours(), change + 7.hours());
        let expected = expression.slots(&zone, from, until);
        if let Some(schedule) = schedule(&expression, name) {
            compare(&schedule, &expected, from.as_millisecond(), until.as_millisecond())?;
        }
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn slots_with_seconds_are_those_of_the_oracle(
        expression in expressions(true),
        moment in moments(),
    ) {
        let (zone, name, middle) = moment;
        let (from, until) = (middle - 3.hours(), middle + 3.hours());
        let expected = expression.slots(&zone, from, until);
        if let Some(schedule) = schedule(&expression, name) {
            compare(&schedule, &expected, from.as_millisecond(), until.as_millisecond())?;
        }
    }
}

/// Holds every way to ask for slots in `[from, until)` against the expected ones (in seconds).
fn compare(
    schedule: &Schedule,
    expected: &[i64],
    from: i64,
    until: i64,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let expected: Vec<i64> = expected.iter().map(|second| second * 1000).collect();
    let mut forward = Vec::new();
    let mut at = from - 1;
    while let Some(slot) = schedule.next(at).filter(|slot| *slot < until) {
        prop_assert!(slot > at);
        forward.push(slot);
        at = slot;
    }
    prop_assert_eq!(&forward, &expected, "next");
    let mut backward = Vec::new();
    let mut at = until;
    while let Some(slot) = schedule.prev(at).filter(|slot| *slot >= from) {
        prop_assert!(slot < at);
        backward.push(slot);
        at = slot;
    }
    backward.reverse();
    prop_assert_eq!(&backward, &expected, "prev");
    prop_assert_eq!(schedule.count(from, until), expected.len() as u64, "count");
    prop_assert_eq!(&schedule.newest(usize::MAX, from, until - 1), &expected, "newest");
    let newest = schedule.newest(3, from, until - 1);
    prop_assert_eq!(&newest[..], &expected[expected.len().saturating_sub(3)..], "newest 3");
    // From every point in between: what a replica that starts there would see.
    for piece in 0..37 {
        let start = from + (until - from) / 37 * piece;
        let first = expected.iter().find(|slot| **slot > start);
        let found = schedule.next(start).filter(|slot| *slot < until);
        prop_assert_eq!(found.as_ref(), first, "next from the middle");
        let behind = expected.iter().filter(|slot| **slot >= start).count();
        prop_assert_eq!(schedule.count(start, until), behind as u64, "count from the middle");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn next_is_later_and_prev_is_earlier(schedule in schedules(), at in instants()) {
        if let Some(next) = schedule.next(at) {
            prop_assert!(next > at);
            let back = schedule.prev(next);
            prop_assert!(back.is_none_or(|back| back <= at), "prev of {next} is {back:?}");
            prop_assert_eq!(schedule.count(at.saturating_add(1), next), 0);
            if let Some(end) = next.checked_add(1) {
                prop_assert_eq!(schedule.prev(end), Some(next));
                prop_assert_eq!(schedule.count(next, end), 1);
            }
        }
        if let Some(prev) = schedule.prev(at) {
            prop_assert!(prev < at);
            let forth = schedule.next(prev);
            prop_assert!(forth.is_none_or(|forth| forth >= at), "next of {prev} is {forth:?}");
        }
    }

    #[test]
    fn counts_of_parts_add_up(
        schedule in schedules(),
        mut ends in proptest::array::uniform3(instants()),
    ) {
        ends.sort_unstable();
        let [from, middle, to] = ends;
        let parts = schedule.count(from, middle) + schedule.count(middle, to);
        prop_assert_eq!(schedule.count(from, to), parts);
        prop_assert_eq!(schedule.count(to, from), 0);
    }

    #[test]
    fn a_count_is_the_number_of_steps(schedule in schedules(), from in instants(), steps in 1..40u64) {
        let mut to = from;
        for _ in 0..steps {
            match schedule.next(to) {
                Some(next) => to = next,
                None => return Ok(()),
            }
        }
        // All slots strictly after `from`, the last of them included.
        let (first, end) = (from.checked_add(1), to.checked_add(1));
        if let (Some(first), Some(end)) = (first, end) {
            prop_assert_eq!(schedule.count(first, end), steps);
        }
        let newest = schedule.newest(usize::MAX, from.saturating_add(1), to);
        prop_assert_eq!(newest.len() as u64, steps);
        prop_assert!(newest.is_sorted());
    }

    #[test]
    fn periods_are_positive_and_the_shortest_is_one_of_them(
        schedule in schedules(),
        from in instants(),
    ) {
        let shortest = schedule.shortest_period(from, 20);
        let mut at = from;
        for _ in 0..20 {
            let Some(slot) = schedule.next(at) else { break };
            let Some(next) = schedule.next(slot) else { break };
            let period = schedule.period(slot);
            prop_assert_eq!(period, Some(next - slot));
            prop_assert!(shortest.is_some_and(|shortest| 0 < shortest && shortest <= next - slot));
            at = slot;
        }
    }

    #[test]
    fn the_spelling_of_the_fingerprint_has_the_same_slots(
        expression in expressions(true),
        moment in moments(),
    ) {
        let (_, name, at) = moment;
        let Some(schedule) = schedule(&expression, name) else { return Ok(()) };
        let fingerprint = schedule.fingerprint();
        let spelled = fingerprint.strip_prefix("cron ").unwrap().rsplit_once(" in ").unwrap().0;
        let seconds = spelled.split(' ').count() == 6;
        let again = Schedule::cron(spelled, schedule.zone().unwrap(), seconds).unwrap();
        prop_assert_eq!(again.fingerprint(), fingerprint);
        prop_assert_eq!(&again, &schedule);
        let (mut one, mut other) = (at.as_millisecond(), at.as_millisecond());
        for _ in 0..10 {
            one = schedule.next(one).unwrap_or(i64::MAX);
            other = again.next(other).unwrap_or(i64::MAX);
            prop_assert_eq!(one, other);
        }
    }
}
