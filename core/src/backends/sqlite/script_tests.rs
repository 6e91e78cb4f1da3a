use std::sync::Arc;

use super::{Group, chained, text};
use crate::backends::sql::{Step, Unit, Write};

fn step(sql: &Arc<str>) -> Step {
    Step { write: Write::Guard, sql: sql.clone(), params: Vec::new() }
}

#[test]
fn a_statement_is_chained_to_the_one_before_it() {
    assert_eq!(
        chained("INSERT INTO runs (slot, token) VALUES (?, ?)"),
        "INSERT INTO runs (slot, token) SELECT ?, ? WHERE changes() = 1"
    );
    assert_eq!(
        chained("DELETE FROM runs WHERE slot = ?"),
        "DELETE FROM runs WHERE slot = ? AND changes() = 1"
    );
}

#[test]
fn units_of_the_same_form_share_a_text() {
    let (guard, write): (Arc<str>, Arc<str>) = ("UPDATE g SET v = ?".into(), "DELETE".into());
    let plain = Unit { job: "a".to_owned(), guard: step(&guard), rest: Vec::new() };
    let writing = Unit { rest: vec![step(&write)], ..plain.clone() };
    let units = [vec![plain; 21], vec![writing; 5]].concat();
    let all = [units.as_slice()];
    let sizes: Vec<usize> = Group::of(&all).lots.iter().map(|lot| lot.len()).collect();
    assert_eq!(sizes, [16, 4, 1, 4, 1]);
}

#[test]
fn a_text_has_the_guard_first() {
    let (guard, write): (Arc<str>, Arc<str>) = ("UPDATE g SET v = ?".into(), "DELETE".into());
    let unit = Unit { job: "a".to_owned(), guard: step(&guard), rest: vec![step(&write)] };
    let (text, statements) = text(&[unit.clone(), unit]);
    assert_eq!(statements, 4);
    assert_eq!(
        text,
        "UPDATE g SET v = ?; DELETE AND changes() = 1; \
         UPDATE g SET v = ?; DELETE AND changes() = 1"
    );
}
