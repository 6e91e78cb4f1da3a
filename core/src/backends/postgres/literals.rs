//! Values written into the text of a statement.
//!
//! Behind a pooler that gives each transaction another connection nothing can be prepared; and a
//! text with many values is planned for these values, where a prepared one is planned for any.

use std::fmt::Write;

use crate::backends::sql::SqlValue;
use crate::error::{Code, Error, Result};

/// A statement with its parameters `$1`, `$2` … written in. No statement of ours has a dollar sign
/// elsewhere.
pub(super) fn inline(sql: &str, params: &[SqlValue]) -> Result<String> {
    let mut text = String::with_capacity(sql.len() + params.len() * 16);
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let number: usize = number.parse().unwrap_or(0);
        let value = number.checked_sub(1).and_then(|index| params.get(index)).ok_or_else(|| {
            Error::new(Code::BackendRefused, format!("a statement wants parameter {number}"))
        })?;
        literal(&mut text, value)?;
        text.push_str(rest);
    }
    Ok(text)
}

/// One value.
fn literal(text: &mut String, value: &SqlValue) -> Result<()> {
    match value {
        SqlValue::Null => text.push_str("NULL"),
        // In brackets: `a - -1` would begin a comment.
        SqlValue::Int(number) if *number < 0 => {
            // The least number has no positive counterpart, so the sign is part of a text.
            let _infallible = write!(text, "('{number}'::BIGINT)");
        }
        SqlValue::Int(number) => {
            let _infallible = write!(text, "{number}");
        }
        SqlValue::Bool(truth) => text.push_str(if *truth { "1" } else { "0" }),
        SqlValue::Text(inner) => quoted(text, inner)?,
        SqlValue::Real(_) | SqlValue::Bytes(_) => {
            return Err(Error::new(Code::BackendRefused, format!("{value:?} is never sent")));
        }
    }
    Ok(())
}

/// `E'…'`: understood alike whatever the server's setting for backslashes is.
fn quoted(text: &mut String, inner: &str) -> Result<()> {
    if inner.contains('\0') {
        return Err(Error::new(
            Code::BackendRefused,
            "PostgreSQL keeps no text with a zero byte in it; leave it out",
        ));
    }
    text.push_str("E'");
    for letter in inner.chars() {
        if matches!(letter, '\'' | '\\') {
            text.push(letter);
        }
        text.push(letter);
    }
    text.push('\'');
    Ok(())
}

/// The values of one column as an array, `E'{"a","b"}'::TEXT[]`.
pub(super) fn array<'a>(
    text: &mut String,
    element: &str,
    values: impl Iterator<Item = &'a SqlValue>,
) -> Result<()> {
    let mut inner = String::from("{");
    for (index, value) in values.enumerate() {
        if index > 0 {
            inner.push(',');
        }
        match value {
            SqlValue::Null => inner.push_str("NULL"),
            SqlValue::Int(number) => {
                let _infallible = write!(inner, "{number}");
            }
            SqlValue::Bool(truth) => inner.push(if *truth { '1' } else { '0' }),
            SqlValue::Text(word) => {
                inner.push('"');
                for letter in word.chars() {
                    if matches!(letter, '"' | '\\') {
                        inner.push('\\');
                    }
                    inner.push(letter);
                }
                inner.push('"');
            }
            SqlValue::Real(_) | SqlValue::Bytes(_) => {
                return Err(Error::new(Code::BackendRefused, format!("{value:?} is never sent")));
            }
        }
    }
    inner.push('}');
    quoted(text, &inner)?;
    let _infallible = write!(text, "::{element}[]");
    Ok(())
}

#[cfg(test)]
#[path = "literals_tests.rs"]
mod tests;
