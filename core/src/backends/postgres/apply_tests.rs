//! The statements that are made of guarded changes.

use std::sync::Arc;

use super::{Texts, held, lots, params};
use crate::backends::sql::{Row, SqlValue, Step, Tables, Unit, Write};

fn step(write: Write, values: &[SqlValue]) -> Step {
    Step { write, sql: Arc::from(""), params: values.to_vec() }
}

fn text(word: &str) -> SqlValue {
    SqlValue::Text(word.to_owned())
}

/// A heartbeat: the version is raised, a lease moves.
fn beat(job: &str) -> Unit {
    let (namespace, name) = (text("ns"), text(job));
    let (step_by, version) = (SqlValue::Int(5), SqlValue::Int(7));
    let guard = [text("stamp"), step_by, namespace.clone(), name.clone(), version];
    let number = SqlValue::Int;
    let renew = [number(90), number(30), namespace, name, number(60), number(0)];
    let (guard, renew) = (step(Write::Guard, &guard), step(Write::RenewRun, &renew));
    Unit { job: job.to_owned(), guard, rest: vec![renew] }
}

fn texts() -> Texts {
    Texts::new(Tables::beside("my_runs"))
}

#[test]
fn the_changes_of_one_job_hang_on_its_guard() {
    assert_eq!(
        &*texts().single(&beat("a")),
        "WITH g AS (UPDATE my_jobs t SET stamp = $1, version = t.version + $2 \
         WHERE t.namespace = $3 AND t.job = $4 AND t.version = $5 RETURNING t.job), \
         s1 AS (UPDATE my_runs t SET lease_until = $6, lease_ms = $7 FROM g \
         WHERE t.namespace = $8 AND t.job = $9 AND t.slot = $10 AND t.is_manual = $11 RETURNING 1) \
         SELECT job, 0 + (SELECT COUNT(*) FROM s1) AS done FROM g"
    );
    assert_eq!(params(&beat("a")).len(), 11);
}

#[test]
fn many_jobs_are_locked_by_name_before_they_are_changed() {
    let units = [beat("a"), beat("b")];
    let sql = texts().many(&units.iter().collect::<Vec<_>>()).expect("can be written");
    assert!(sql.contains("ORDER BY t.job FOR UPDATE OF t"), "{sql}");
    assert!(sql.starts_with("WITH i AS MATERIALIZED (SELECT * FROM unnest(E'{"), "{sql}");
    assert!(sql.contains("E'{\"a\",\"b\"}'::TEXT[], E'{7,7}'::BIGINT[]"), "{sql}");
    assert!(sql.contains("FROM i JOIN g ON g.job = i.c3 WHERE t.namespace = i.c7"), "{sql}");
}

#[test]
fn a_new_job_that_is_there_already_is_no_error() {
    let guard = step(Write::InsertJob, &vec![SqlValue::Int(0); 18]);
    let unit = Unit { job: "a".to_owned(), guard, rest: Vec::new() };
    let sql = texts().single(&unit);
    assert!(sql.contains("ON CONFLICT DO NOTHING RETURNING job"), "{sql}");
}

#[test]
fn those_of_one_form_go_together_in_the_order_of_their_names() {
    let mut other = beat("c");
    other.rest.clear();
    let units = [beat("b"), other, beat("a")];
    assert_eq!(lots(&units), [vec![2, 0], vec![1]]);
}

#[test]
fn who_held_is_told_by_the_rows_and_a_missing_change_is_noticed() {
    let units = [beat("a"), beat("b")];
    let units: Vec<&Unit> = units.iter().collect();
    let row = |job: &str, done| Row::in_order(vec![text(job), SqlValue::Int(done)]);
    assert_eq!(held(&units, vec![row("b", 1)]).expect("fits"), [false, true]);
    assert_eq!(held(&units, Vec::new()).expect("fits"), [false, false]);
    assert!(held(&units, vec![row("a", 1), row("b", 1)]).is_err());
}
