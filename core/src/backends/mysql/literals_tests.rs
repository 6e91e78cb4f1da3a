//! What values look like in a text.

use super::inline;
use crate::backends::sql::SqlValue;

fn inlined(sql: &str, params: &[SqlValue]) -> crate::error::Result<String> {
    let mut text = String::new();
    inline(&mut text, sql, params).map(|()| text)
}

#[test]
fn text_is_hex_whatever_is_in_it() {
    let word = SqlValue::Text("a'?\\".to_owned());
    assert_eq!(inlined("b = ?", &[word]).expect("fits"), "b = X'61273f5c'");
    let empty = SqlValue::Text(String::new());
    assert_eq!(inlined("b = ?", &[empty]).expect("fits"), "b = X''");
}

#[test]
fn numbers_keep_their_sign_and_nothing_is_null() {
    let params = [SqlValue::Int(i64::MIN), SqlValue::Null, SqlValue::Int(7)];
    assert_eq!(inlined("1 -?, ?, ?", &params).expect("fits"), "1 -(-9223372036854775808), NULL, 7");
}

#[test]
fn parameters_and_marks_must_be_as_many() {
    assert!(inlined("? ?", &[SqlValue::Null]).is_err());
    assert!(inlined("?", &[SqlValue::Null, SqlValue::Null]).is_err());
}
