use super::Every;
use crate::error::Code;

fn every(interval: i64, offset: i64) -> Every {
    Every::new(interval, offset).unwrap()
}

#[test]
fn slots_are_multiples_of_the_interval_on_both_sides_of_the_epoch() {
    let grid = every(1000, 0);
    assert_eq!(grid.first_from(1), Some(1000));
    assert_eq!(grid.first_from(1000), Some(1000));
    assert_eq!(grid.first_from(-999), Some(0));
    assert_eq!(grid.last_until(-1), Some(-1000));
    assert_eq!(grid.last_until(-1000), Some(-1000));
}

#[test]
fn an_offset_moves_the_grid_and_is_taken_modulo_the_interval() {
    assert_eq!(every(1000, 300).first_from(301), Some(1300));
    assert_eq!(every(1000, 300), every(1000, 5300));
    assert_eq!(every(1000, 300), every(1000, -700));
    assert_eq!(every(1000, i64::MIN).fingerprint(), "every 1000 offset 192");
}

#[test]
fn a_count_does_not_include_its_end() {
    let grid = every(1000, 0);
    assert_eq!(grid.count(0, 1000), 1);
    assert_eq!(grid.count(0, 1001), 2);
    assert_eq!(grid.count(1, 1000), 0);
    assert_eq!(grid.count(-1000, 1), 2);
}

#[test]
fn the_grid_ends_where_the_numbers_end() {
    let grid = every(1000, 0);
    assert_eq!(grid.first_from(i64::MAX), None);
    assert_eq!(grid.last_until(i64::MIN), None);
    assert_eq!(grid.first_from(i64::MIN), Some(-9_223_372_036_854_775_000));
    assert_eq!(grid.last_until(i64::MAX), Some(9_223_372_036_854_775_000));
    assert_eq!(every(100, 0).count(i64::MIN, i64::MAX), 184_467_440_737_095_517);
    assert_eq!(every(i64::MAX, 0).first_from(1), Some(i64::MAX));
}

#[test]
fn an_interval_below_100_ms_is_refused() {
    for interval in [99, 0, -1, i64::MIN] {
        let error = Every::new(interval, 0).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidSchedule));
        assert!(error.message().contains(&interval.to_string()), "{error}");
    }
    assert_eq!(every(100, 0).interval_ms(), 100);
}

#[test]
fn it_describes_itself_in_words() {
    assert_eq!(every(5_400_000, 0).describe(), "every 1h30m");
    assert_eq!(every(60_000, 5_000).describe(), "every 1m, offset 5s");
}
