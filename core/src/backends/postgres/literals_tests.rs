//! What values look like in a text.

use super::{array, inline};
use crate::backends::sql::SqlValue;

fn text(word: &str) -> SqlValue {
    SqlValue::Text(word.to_owned())
}

#[test]
fn parameters_are_written_in_wherever_they_stand() {
    let sql = "SELECT $2 FROM t WHERE a = $1 AND b IN ($1, $10)";
    let params: Vec<SqlValue> = (1..=10).map(SqlValue::Int).collect();
    assert_eq!(
        inline(sql, &params).expect("all are there"),
        "SELECT 2 FROM t WHERE a = 1 AND b IN (1, 10)"
    );
    assert!(inline("SELECT $3", &params[..2]).is_err());
}

#[test]
fn no_text_ends_its_quotes() {
    let sql = inline("SELECT $1, $2, $3", &[text("it's"), text("\\' OR 1=1 --"), text("$1 ?")]);
    assert_eq!(sql.expect("allowed"), "SELECT E'it''s', E'\\\\'' OR 1=1 --', E'$1 ?'");
    assert!(inline("SELECT $1", &[text("a\0b")]).is_err());
}

#[test]
fn numbers_keep_their_sign_and_nothing_is_null() {
    let sql = inline("SELECT 1 -$1, $2", &[SqlValue::Int(i64::MIN), SqlValue::Null]);
    assert_eq!(sql.expect("allowed"), "SELECT 1 -('-9223372036854775808'::BIGINT), NULL");
}

#[test]
fn arrays_are_quoted_twice() {
    let mut sql = String::new();
    let values = [text("a"), text("\"b\\'"), SqlValue::Null, text("null")];
    array(&mut sql, "TEXT", values.iter()).expect("allowed");
    assert_eq!(sql, "E'{\"a\",\"\\\\\"b\\\\\\\\''\",NULL,\"null\"}'::TEXT[]");
    let mut sql = String::new();
    array(&mut sql, "BIGINT", [SqlValue::Int(-1), SqlValue::Null].iter()).expect("allowed");
    assert_eq!(sql, "E'{-1,NULL}'::BIGINT[]");
}
