use std::sync::Arc;

use super::Cron;
use crate::error::Code;

fn cron(expression: &str) -> Cron {
    Cron::new(expression, "Europe/Berlin", false).unwrap()
}

fn refusal(expression: &str, seconds: bool) -> String {
    let error = Cron::new(expression, "UTC", seconds).unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidSchedule));
    error.message().to_owned()
}

#[test]
fn a_clone_shares_everything() {
    let original = cron("0 2 * * *");
    assert!(Arc::ptr_eq(&original.0, &original.clone().0));
    assert!(Arc::ptr_eq(&original.0.zone, &cron("5 5 * * *").0.zone));
}

#[test]
fn equal_definitions_are_equal_however_they_are_spelled() {
    assert_eq!(cron("0 0 * * SUN"), cron("00 0 * * 7"));
    assert_eq!(cron("@daily"), cron(" 0  0 * * * "));
    let with_seconds = Cron::new("0 0 0 * * *", "europe/berlin", true).unwrap();
    assert_eq!(cron("@daily"), with_seconds);
    assert_ne!(cron("@daily"), cron("@weekly"));
    assert_ne!(cron("@daily"), Cron::new("@daily", "UTC", false).unwrap());
    // The same values, but another reading of the second day field.
    assert_ne!(cron("0 0 */10 * 1"), cron("0 0 1-31/10 * 1"));
}

#[test]
fn it_keeps_the_text_that_was_given() {
    let daily = cron(" @daily ");
    assert_eq!(daily.expression(), "@daily");
    assert_eq!(daily.canonical(), "0 0 * * *");
    assert_eq!(daily.fingerprint(), "cron 0 0 * * * in Europe/Berlin");
    assert_eq!(daily.describe(), "cron '@daily' in Europe/Berlin");
}

#[test]
fn six_fields_without_seconds_are_answered_with_both_readings() {
    let message = refusal("5 * * * * *", false);
    assert!(message.contains("second `5`, minute `*`, hour `*`"), "{message}");
    assert!(message.contains("`5 * * * *` reads: minute `5`, hour `*`"), "{message}");
}

#[test]
fn a_refusal_begins_with_what_was_given() {
    assert!(refusal("61 * * * *", false).starts_with("cron expression `61 * * * *`: minute field"));
    let long = refusal(&"* ".repeat(300), false);
    assert!(long.len() < 500, "{long}");
}

#[test]
fn a_step_beside_another_day_field_is_warned_about() {
    let warnings = cron("0 0 */10 * 1").warnings().to_vec();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("write `1-31/10` instead"), "{}", warnings[0]);
    assert!(cron("0 0 */10 * *").warnings().is_empty());
    assert!(cron("0 0 10 * 1").warnings().is_empty());
    assert!(cron("*/5 */2 10 */2 1").warnings().is_empty());
}
