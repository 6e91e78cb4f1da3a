//! The text that is made of guarded changes, and what its answers say.

use std::sync::Arc;

use super::{MOST_UNITS, script};
use crate::backends::sql::{SqlValue, Step, Unit, Write};

fn step(write: Write, sql: &str, params: &[SqlValue]) -> Step {
    Step { write, sql: Arc::from(sql), params: params.to_vec() }
}

fn unit(job: &str) -> Unit {
    let job_value = SqlValue::Text(job.to_owned());
    let update = "UPDATE j SET version = version + 1 WHERE job = ?";
    let insert = "INSERT INTO r (slot, status) VALUES (?, ?)";
    Unit {
        job: job.to_owned(),
        guard: step(Write::Guard, update, &[job_value]),
        rest: vec![step(Write::InsertRun, insert, &[SqlValue::Int(5), SqlValue::Null])],
    }
}

#[test]
fn the_changes_of_a_job_hang_on_the_rows_of_its_guard() {
    let unit = unit("a");
    let script = script(&[&unit]).expect("can be written");
    assert_eq!(
        script.text,
        "START TRANSACTION; UPDATE j SET version = version + 1 WHERE job = X'61'; \
         SET @anarchon_held = ROW_COUNT(); \
         INSERT INTO r (slot, status) SELECT 5, NULL FROM DUAL WHERE @anarchon_held = 1"
    );
    assert_eq!(script.held(&[&unit], &[0, 1, 0, 1]).expect("fits"), [true]);
    assert_eq!(script.held(&[&unit], &[0, 0, 0, 0]).expect("fits"), [false]);
    assert!(script.held(&[&unit], &[0, 1, 0, 0]).is_err(), "a change is missing");
    assert!(script.held(&[&unit], &[0, 1, 0]).is_err(), "an answer is missing");
}

#[test]
fn a_new_job_that_is_there_already_is_no_error() {
    let insert = "INSERT INTO j (job) VALUES (?)";
    let guard = step(Write::InsertJob, insert, &[SqlValue::Text("a".to_owned())]);
    let unit = Unit { job: "a".to_owned(), guard, rest: Vec::new() };
    let script = script(&[&unit]).expect("can be written");
    assert_eq!(script.text, "START TRANSACTION; INSERT IGNORE INTO j (job) VALUES (X'61')");
    assert_eq!(script.held(&[&unit], &[0, 0]).expect("fits"), [false]);
}

#[test]
fn a_text_takes_so_many_and_leaves_the_rest() {
    let units: Vec<Unit> = (0..MOST_UNITS + 5).map(|n| unit(&format!("{n:03}"))).collect();
    let units: Vec<&Unit> = units.iter().collect();
    let first = script(&units).expect("can be written");
    assert_eq!(first.units(), MOST_UNITS);
    let changed: Vec<u64> = std::iter::once(0).chain([1, 0, 1].repeat(MOST_UNITS)).collect();
    assert_eq!(first.held(&units, &changed).expect("fits"), vec![true; MOST_UNITS]);
}
