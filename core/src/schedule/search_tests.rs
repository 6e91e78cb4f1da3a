//! How much work the hardest questions take, in months looked at: a count that is the same on
//! every machine. A month takes well under 100 ns where the code is optimised, so ten thousand of
//! them are the millisecond that a question may take.

use super::years;
use crate::random::Random;
use crate::schedule::{Schedule, calendar};

/// The hardest expressions: the rarest days, and times that a zone skips.
const HARD: [(&str, &str); 9] = [
    ("0 0 29 2 *", "UTC"),
    ("0 0 29 2 *", "America/New_York"),
    // 29 February on a Sunday: up to 40 years apart.
    ("0 0 29 2 */7", "America/New_York"),
    ("*/30 2 29 2 */7", "Europe/Berlin"),
    // The fifth Friday of February, on a day that also has to be the 29th.
    ("0 12 */28 2 5#5", "Australia/Lord_Howe"),
    ("0 0 31W 2-3 *", "Antarctica/Troll"),
    ("* * * * *", "America/New_York"),
    ("30 2 8-14 3 */7", "America/New_York"),
    ("0 0 13 * 5", "Africa/Casablanca"),
];

fn months<T>(question: impl FnOnce() -> T) -> (T, u64) {
    let before = calendar::months_looked_at();
    let answer = question();
    (answer, calendar::months_looked_at() - before)
}

#[test]
fn the_next_and_the_previous_slot_take_few_steps_from_anywhere() {
    let (first, last) = years();
    let random = Random::seeded(7);
    for (expression, zone) in HARD {
        let schedule = Schedule::cron(expression, zone, false).unwrap();
        for _ in 0..300 {
            let at = first * 1000 + random.up_to((last - first) * 1000);
            let (_, steps) = months(|| schedule.next(at));
            assert!(steps < 1000, "{expression} in {zone} after {at}: {steps} months");
            let (_, steps) = months(|| schedule.prev(at));
            assert!(steps < 1000, "{expression} in {zone} before {at}: {steps} months");
        }
    }
}

#[test]
fn a_question_from_beyond_all_years_takes_few_steps() {
    for (expression, zone) in HARD {
        let schedule = Schedule::cron(expression, zone, false).unwrap();
        let (_, steps) = months(|| {
            (
                schedule.next(i64::MIN),
                schedule.next(i64::MAX),
                schedule.prev(i64::MIN),
                schedule.prev(i64::MAX),
            )
        });
        assert!(steps < 2000, "{expression} in {zone}: {steps} months");
    }
}

#[test]
fn a_year_of_minutes_costs_about_as_much_as_a_day() {
    let year = 1_767_225_600_000..1_798_761_600_000; // 2026
    for zone in ["UTC", "America/New_York"] {
        let minutes = Schedule::cron("* * * * *", zone, false).unwrap();
        let (count, steps) = months(|| minutes.count(year.start, year.end));
        assert_eq!(count, 525_600, "{zone}");
        assert!(steps <= 12, "{zone}: {steps} months");
        // Days that have to be looked at month by month.
        let weekdays = Schedule::cron("* * * * 1-5", zone, false).unwrap();
        let (_, steps) = months(|| weekdays.count(year.start, year.end));
        assert!(steps <= 24, "{zone}: {steps} months");
    }
}

#[test]
fn counting_all_years_takes_bounded_steps() {
    for (expression, zone) in HARD {
        let schedule = Schedule::cron(expression, zone, false).unwrap();
        let (_, steps) = months(|| schedule.count(i64::MIN, i64::MAX));
        assert!(steps < 60_000, "{expression} in {zone}: {steps} months");
    }
}

#[test]
fn an_expression_that_never_matches_is_found_out_in_few_steps() {
    for expression in ["0 0 30 2 *", "0 0 31 2,4,6 *", "0 0 LW * */6"] {
        let (result, steps) = months(|| Schedule::cron(expression, "Europe/Berlin", false));
        assert!(result.is_err(), "{expression}");
        assert!(steps <= 5000, "{expression}: {steps} months");
    }
}

#[test]
fn times_that_the_zone_always_skips_are_refused() {
    // New York skips 02:00 to 03:00 on the second Sunday of March, in every year.
    let error = Schedule::cron("* 2 8-14 3 */7", "America/New_York", false).unwrap_err();
    assert!(error.message().contains("America/New_York skips"), "{error}");
    assert!(Schedule::cron("* 2 8-14 3 */7", "UTC", false).is_ok());
    // The fixed-time job of the same days has its slots at the ends of the gaps.
    assert!(Schedule::cron("0 2 8-14 3 */7", "America/New_York", false).is_ok());
}
