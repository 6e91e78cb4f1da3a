//! Any text as a cron expression and as a duration: it is refused, or its slots are in order.
#![no_main]

use anarchon::schedule::{Schedule, duration};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    text: &'a str,
    seconds: bool,
    at: i64,
}

fuzz_target!(|input: Input<'_>| {
    let Input { text, seconds, at } = input;
    if let Ok(ms) = duration::parse_ms(text) {
        assert_eq!(duration::parse_ms(&duration::format_ms(ms)).ok(), Some(ms));
    }
    let Ok(schedule) = Schedule::cron(text, "America/New_York", seconds) else { return };
    if let Some(next) = schedule.next(at) {
        assert!(next > at);
        assert!(schedule.prev(next).is_none_or(|prev| prev <= at));
        assert_eq!(schedule.count(at, next), u64::from(schedule.prev(at + 1) == Some(at)));
    }
    if let Some(prev) = schedule.prev(at) {
        assert!(prev < at);
        assert!(schedule.next(prev).is_none_or(|next| next >= at));
    }
});
