use super::{Last, Reading};

/// The server's clock showed 1,000,000 when ours showed 500 at the earliest, 540 at the latest.
const READING: Reading = Reading { shown: 1_000_000, earliest: 500, latest: 540, given: false };

#[test]
fn what_is_not_known_is_taken_off() {
    assert_eq!(READING.now(540, None), 1_000_000);
    // Of 100 ms by two clocks that are rounded down, 99 have passed for certain.
    assert_eq!(READING.now(640, None), 1_000_099);
    assert_eq!(READING.now(60_540, None), 1_059_999);
}

#[test]
fn a_reading_after_another_never_runs_back() {
    let worse = Reading { shown: 1_000_980, earliest: 1_500, latest: 1_540, given: false };
    let both = worse.after(READING, 1_540);
    assert_eq!(worse.now(1_540, None), 1_000_980);
    assert_eq!(both.now(1_540, None), 1_000_999);
}

#[test]
fn a_reading_far_behind_the_one_before_says_that_the_clock_was_set_back() {
    let back = Reading { shown: 990_000, earliest: 1_500, latest: 1_540, given: false };
    assert_eq!(back.after(READING, 1_540), back);
}

#[test]
fn a_reading_never_goes_back_behind_what_was_shown() {
    assert_eq!(READING.now(0, None), 1_000_000);
}

#[test]
fn a_state_stored_within_what_is_unknown_tells_the_time_better() {
    assert_eq!(READING.now(540, Some(1_000_030)), 1_000_030);
    assert_eq!(READING.now(540, Some(999_000)), 1_000_000);
}

#[test]
fn a_state_from_further_ahead_says_that_the_clock_was_set_back() {
    assert_eq!(READING.now(540, Some(1_000_042)), 1_000_000);
    assert_eq!(READING.now(540, Some(9_000_000)), 1_000_000);
}

#[test]
fn a_given_clock_is_taken_at_its_word() {
    let given = Reading { given: true, ..READING };
    assert_eq!(given.now(9_999, Some(1_000_001)), 1_000_000);
}

#[test]
fn what_was_read_holds_for_a_while() {
    let mut last = Last::default();
    assert_eq!(last.fresh(540, 1_000, 0), None);
    assert_eq!(last.keep(READING, 540, 0), READING);
    assert_eq!(last.fresh(1_539, 1_000, 0), Some(READING));
    assert_eq!(last.fresh(1_540, 1_000, 0), None);
}

#[test]
fn what_was_read_holds_no_longer_once_a_connection_was_lost_or_a_call_got_no_answer() {
    let mut last = Last::default();
    last.keep(READING, 540, 2);
    assert_eq!(last.fresh(541, 1_000, 3), None);
    last.doubt();
    assert_eq!(last.fresh(541, 1_000, 2), None);
    last.keep(READING, 540, 3);
    assert_eq!(last.fresh(541, 1_000, 3), Some(READING));
}

#[test]
fn of_two_readings_the_one_that_shows_more_is_kept() {
    let mut last = Last::default();
    last.keep(READING, 540, 0);
    let worse = Reading { shown: 1_000_980, earliest: 1_500, latest: 1_540, given: false };
    assert_eq!(last.keep(worse, 1_540, 0).now(1_540, None), 1_000_999);
    let set_back = Reading { shown: 990_000, earliest: 2_500, latest: 2_540, given: false };
    assert_eq!(last.keep(set_back, 2_540, 0), set_back);
}
