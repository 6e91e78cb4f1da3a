use super::{format_ms, parse_ms};

#[test]
fn units_add_up() {
    assert_eq!(parse_ms("1w2d3h4m5s6ms").unwrap(), 788_645_006);
}

#[test]
fn m_is_minutes_and_ms_is_milliseconds() {
    assert_eq!(parse_ms("1m").unwrap(), 60_000);
    assert_eq!(parse_ms("1ms").unwrap(), 1);
    assert_eq!(parse_ms("1m1ms").unwrap(), 60_001);
}

#[test]
fn a_refusal_says_what_was_given_what_is_allowed_and_what_to_write() {
    let message = parse_ms("60").unwrap_err().message().to_owned();
    assert!(message.starts_with("duration `60`: the unit is missing: write '60s'"), "{message}");
    assert!(message.contains("w, d, h, m, s, ms"), "{message}");
}

#[test]
fn texts_are_the_shortest() {
    assert_eq!(format_ms(0), "0ms");
    assert_eq!(format_ms(1_500), "1s500ms");
    assert_eq!(format_ms(86_400_000), "1d");
    assert_eq!(format_ms(7 * 86_400_000), "1w");
    assert_eq!(format_ms(-90_000), "-1m30s");
}

#[test]
fn the_ends_of_the_numbers_have_a_text() {
    assert_eq!(parse_ms(&format_ms(i64::MAX)).unwrap(), i64::MAX);
    assert!(format_ms(i64::MIN).starts_with('-'));
}
