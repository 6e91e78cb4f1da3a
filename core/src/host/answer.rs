//! Reading what a user's method answered.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};
use crate::host::names::{Naming, camel, snake};

/// A value with all field names in the core's own style (camelCase).
pub(super) fn to_core(value: Value, naming: Naming) -> Value {
    match naming {
        Naming::Camel => value,
        Naming::Snake => rename(value, camel),
    }
}

/// A value with all field names in the style of the language.
pub(super) fn to_host(value: Value, naming: Naming) -> Value {
    match naming {
        Naming::Camel => value,
        Naming::Snake => rename(value, snake),
    }
}

fn rename(value: Value, write: fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let renamed: Map<String, Value> =
                fields.map(|(name, value)| (write(&name), rename(value, write))).collect();
            Value::Object(renamed)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| rename(item, write)).collect())
        }
        plain => plain,
    }
}

/// An answer of the wrong type: who gave it, what it is, what is wanted.
pub(super) fn wrong(member: &str, value: &Value, wanted: &str) -> Error {
    const SHOWN: usize = 200;
    let mut shown = value.to_string();
    if shown.len() > SHOWN {
        let end = (0..=SHOWN).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
        shown.truncate(end);
        shown.push('…');
    }
    Error::new(Code::BackendRefused, format!("{member} answered {shown}; it must answer {wanted}"))
}

/// True or false, and nothing that merely looks like it.
pub(super) fn truth(member: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong(member, value, "true or false"))
}

/// Nothing; whatever was answered is not looked at.
pub(super) fn nothing(_value: &Value) {}

/// A value with fields, in the style of the language. `null` fields count as left out.
pub(super) fn fields<T: DeserializeOwned>(
    member: &str,
    value: Value,
    naming: Naming,
    wanted: &str,
) -> Result<T> {
    let read = to_core(without_nulls(value.clone()), naming);
    serde_json::from_value(read)
        .map_err(|error| wrong(member, &value, &format!("{wanted} ({error})")))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        // JavaScript has one kind of number: 3.0 is a whole one.
        Value::Number(number) => match number.as_f64().filter(|_| !number.is_i64()) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        plain => plain,
    }
}
