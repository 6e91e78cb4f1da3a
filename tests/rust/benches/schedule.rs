//! What a question to a schedule costs: `cargo bench -p anarchon-tests --bench schedule`.
//!
//! The hardest expressions are asked from many instants; a line shows the mean and the slowest
//! single answer. The slowest one on a busy machine is often the machine: the bound itself is
//! tested in steps (`core/src/schedule/search_tests.rs`).
#![expect(clippy::disallowed_methods, reason = "a benchmark is what clocks are for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use anarchon::schedule::Schedule;

const QUESTIONS: u32 = 2_000;

const EXPRESSIONS: [(&str, &str); 7] = [
    ("* * * * *", "UTC"),
    ("*/5 * * * *", "America/New_York"),
    ("0 2 * * *", "Europe/Berlin"),
    ("0 0 13 * 5", "Africa/Casablanca"),
    ("0 0 29 2 *", "America/New_York"),
    ("0 0 29 2 */7", "Europe/Berlin"),
    ("0 12 */28 2 5#5", "Australia/Lord_Howe"),
];

fn ask<T>(mut question: impl FnMut(i64) -> T) -> (Duration, Duration) {
    const YEAR: i64 = 31_556_952_000;
    let (mut total, mut slowest) = (Duration::ZERO, Duration::ZERO);
    for number in 0..i64::from(QUESTIONS) {
        // From 1900 to 2300, at odd moments.
        let at = -70 * YEAR + number * (400 * YEAR / i64::from(QUESTIONS)) + number * 7_919;
        let start = Instant::now();
        black_box(question(at));
        let took = start.elapsed();
        total += took;
        slowest = slowest.max(took);
    }
    (total / QUESTIONS, slowest)
}

fn line(what: &str, (mean, slowest): (Duration, Duration)) {
    let (mean, slowest) = (mean.as_secs_f64() * 1e6, slowest.as_secs_f64() * 1e6);
    println!("  {what:<34} mean {mean:>9.2} µs   slowest {slowest:>9.2} µs");
}

fn main() {
    const YEAR: i64 = 366 * 86_400_000;
    for (expression, zone) in EXPRESSIONS {
        println!("{expression}  in {zone}");
        let start = Instant::now();
        let schedule = Schedule::cron(expression, zone, false).expect(expression);
        let took = start.elapsed();
        line("read, with the zone's first table", (took, took));
        line("read again", ask(|_| Schedule::cron(expression, zone, false)));
        line("next", ask(|at| schedule.next(at)));
        line("prev", ask(|at| schedule.prev(at)));
        line("count of a day", ask(|at| schedule.count(at, at + 86_400_000)));
        line("count of a year", ask(|at| schedule.count(at, at + YEAR)));
        line("count of 100 years", ask(|at| schedule.count(at, at + 100 * YEAR)));
        let start = Instant::now();
        black_box(schedule.count(i64::MIN, i64::MAX));
        let took = start.elapsed();
        line("count of all years", (took, took));
    }
    println!("refused");
    for text in ["", "0-99999999/1 * * * *", "0 0 30 2 *", "0 0 LW * */6"] {
        line(text, ask(|_| Schedule::cron(text, "UTC", false)));
    }
    line("zone Europe/Berln", ask(|_| Schedule::cron("@daily", "Europe/Berln", false)));
}
