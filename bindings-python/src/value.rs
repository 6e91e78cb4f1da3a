//! Plain values cross the border as JSON text: one string each way.

use anarchon::error::{Error, Result};
use anarchon::schedule::duration;
use pyo3::{PyResult, Python, pyfunction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::to_python;

/// A value of the core as JSON text.
pub fn to_text<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::option(format!("a value cannot be written as JSON: {error}")))
}

/// A value of the core from JSON text.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::option(format!("a value cannot be read: {error}")))
}

/// A JSON object by its text.
pub fn object(text: &str) -> Result<Map<String, Value>> {
    from_text(text)
}

/// The milliseconds of a duration like `1h30m`.
#[pyfunction]
pub fn parse_duration_ms(py: Python<'_>, text: &str) -> PyResult<i64> {
    duration::parse_ms(text).map_err(|error| to_python(py, &error))
}
