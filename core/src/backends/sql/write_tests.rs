use super::Write;
use crate::backends::sql::Tables;

fn text(write: Write, rows: usize) -> String {
    write.text(&Tables::beside("my_runs"), rows)
}

#[test]
fn a_guard_raises_the_version_that_was_read() {
    assert_eq!(
        text(Write::Guard, 1),
        "UPDATE my_jobs SET stamp = ?, version = version + ? \
         WHERE namespace = ? AND job = ? AND version = ?"
    );
}

#[test]
fn several_rows_are_found_one_or_the_other() {
    assert_eq!(
        text(Write::RenewRun, 2),
        "UPDATE my_runs SET lease_until = ?, lease_ms = ? WHERE \
         (namespace = ? AND job = ? AND slot = ? AND is_manual = ?) OR \
         (namespace = ? AND job = ? AND slot = ? AND is_manual = ?)"
    );
    assert_eq!(
        text(Write::DeleteRun, 1),
        "DELETE FROM my_runs WHERE namespace = ? AND job = ? AND slot = ? AND is_manual = ?"
    );
}

#[test]
fn counters_are_added_to() {
    let text = text(Write::GuardCounters, 1);
    assert!(text.contains("fence = fence + ?, ended = ended + ?"), "{text}");
}

#[test]
fn an_insert_has_as_many_parameters_as_columns() {
    for write in [Write::InsertJob, Write::InsertRun] {
        let text = text(write, 3);
        let columns = text.split(')').next().expect("a list of columns").matches(',').count() + 1;
        assert_eq!(text.matches('?').count(), 3 * columns, "{text}");
    }
}
