//! The parser against arbitrary texts: it answers, it refuses in words, and it never panics.

use anarchon::schedule::{Schedule, duration, zone};
use anarchon::{Code, Result};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::proptest;

use super::config;

/// Texts that are nearly expressions, and texts that are nothing of the kind.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9*/,\\-LW#? \t]{0,30}",
        "([0-9*/,\\-LW#]{1,6} ){4,6}[0-9A-Za-z*/,\\-]{1,6}",
        "([*]|[0-9]{1,2}|[*]/[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2},[0-9]{1,2})( ([*]|[0-9]{1,2}|[*]/[0-9]|[0-9]-[0-9]{1,2}|L|LW|[0-9]{1,2}W|[0-9]L|[0-9]#[0-9]|MON|FRI-SUN|JAN)){4,5}",
        "@[a-z]{0,10}",
    ]
}

fn check<T>(result: &Result<T>, code: Code) -> Result<(), proptest::test_runner::TestCaseError> {
    if let Err(error) = result {
        prop_assert_eq!(error.code(), Some(code));
        // Whatever was given, the message can be read: one line, of bounded length.
        prop_assert!(error.message().chars().count() < 1500, "{}", error.message().len());
        prop_assert!(!error.message().chars().any(char::is_control));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn any_text_is_read_whole_or_refused(text in texts(), seconds in any::<bool>(), at in any::<i64>()) {
        let result = Schedule::cron(&text, "Europe/Berlin", seconds);
        check(&result, Code::InvalidSchedule)?;
        if let Ok(schedule) = result {
            prop_assert!(schedule.next(0).is_some(), "{text} is accepted and has no slot");
            prop_assert!(schedule.next(at).is_none_or(|next| next > at));
            prop_assert!(schedule.prev(at).is_none_or(|prev| prev < at));
        }
    }

    #[test]
    fn any_text_is_a_duration_or_refused(text in prop_oneof![any::<String>(), "[0-9wdhms.\\- ]{0,24}"]) {
        let result = duration::parse_ms(&text);
        check(&result, Code::InvalidOption)?;
        if let Ok(ms) = result {
            prop_assert!(ms >= 0);
        }
    }

    #[test]
    fn a_duration_survives_being_written(ms in 0..=i64::MAX) {
        prop_assert_eq!(duration::parse_ms(&duration::format_ms(ms)).unwrap(), ms);
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn any_text_is_a_zone_or_refused(text in prop_oneof![any::<String>(), "[A-Za-z_/+\\-0-9]{0,60}"]) {
        check(&zone::check(&text), Code::InvalidOption)?;
        check(&Schedule::cron("* * * * *", &text, false), Code::InvalidSchedule)?;
    }
}

#[test]
fn a_megabyte_of_text_is_refused_in_a_short_message() {
    for part in ["*", "0,", "* ", "9", "\u{0665}", "@", "\n", "1-"] {
        let text = part.repeat(1_000_000 / part.len());
        let error = Schedule::cron(&text, "UTC", false).unwrap_err();
        assert!(error.message().len() < 1000, "{} bytes", error.message().len());
        let error = zone::check(&text).unwrap_err();
        assert!(error.message().len() < 1000, "{} bytes", error.message().len());
        let error = duration::parse_ms(&text).unwrap_err();
        assert!(error.message().len() < 1000, "{} bytes", error.message().len());
    }
}
