use super::At;

#[test]
fn there_is_one_slot() {
    let once = At::new(1000);
    assert_eq!(once.first_from(1000), Some(1000));
    assert_eq!(once.first_from(1001), None);
    assert_eq!(once.last_until(1000), Some(1000));
    assert_eq!(once.last_until(999), None);
    assert_eq!((once.count(1000, 1001), once.count(999, 1000)), (1, 0));
}

#[test]
fn it_describes_itself_in_words() {
    assert_eq!(At::new(0).describe(), "once at 1970-01-01T00:00:00Z");
    assert!(At::new(i64::MAX).describe().contains("9223372036854775807 ms"));
    assert_eq!(At::new(-5).fingerprint(), "at -5");
}
