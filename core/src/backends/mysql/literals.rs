//! Values written into the text of a statement.
//!
//! Several statements can only be sent together as one text, and a text is one round trip through
//! any pooler or proxy. Text is written as its bytes in hex, so that no setting of the server
//! (`NO_BACKSLASH_ESCAPES`, the session's character set) can change what it means.

use std::fmt::Write;

use crate::backends::sql::SqlValue;
use crate::error::{Code, Error, Result};

/// Appends a statement with its parameters `?` written in. No statement of ours has a question mark
/// elsewhere.
pub(super) fn inline(text: &mut String, sql: &str, params: &[SqlValue]) -> Result<()> {
    let mut params = params.iter();
    let mut parts = sql.split('?');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let missing = || Error::new(Code::BackendRefused, "a statement wants more parameters");
        literal(text, params.next().ok_or_else(missing)?)?;
        text.push_str(part);
    }
    match params.next() {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::BackendRefused, "a statement wants fewer parameters")),
    }
}

fn literal(text: &mut String, value: &SqlValue) -> Result<()> {
    match value {
        SqlValue::Null => text.push_str("NULL"),
        SqlValue::Int(number) => {
            // In brackets: `a--1` would begin a comment.
            let _infallible = match number {
                0.. => write!(text, "{number}"),
                _ => write!(text, "({number})"),
            };
        }
        SqlValue::Bool(truth) => text.push_str(if *truth { "1" } else { "0" }),
        SqlValue::Text(word) => {
            text.push_str("X'");
            for byte in word.as_bytes() {
                let _infallible = write!(text, "{byte:02x}");
            }
            text.push('\'');
        }
        SqlValue::Real(_) | SqlValue::Bytes(_) => {
            return Err(Error::new(Code::BackendRefused, format!("{value:?} is never sent")));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "literals_tests.rs"]
mod tests;
