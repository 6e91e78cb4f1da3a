//! Errors in both directions: ours by their code, the user's as the object that was thrown.

use std::sync::Arc;

use anarchon::error::{Code, Error, HostError};
use anarchon::host::names::nearest;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::{Py, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::sync::PyOnceLock;
use pyo3::{Bound, pyfunction};

/// All error codes, in the order of the documentation.
#[pyfunction]
pub fn error_codes() -> Vec<&'static str> {
    Code::ALL.iter().map(|code| code.as_str()).collect()
}

/// `, did you mean "x"?` for the nearest of the known names, or nothing if none is near.
#[pyfunction]
pub fn nearest_name(given: &str, known: Vec<String>) -> String {
    nearest(given, &known)
}

/// The exception object for an error: for one of the user's the very object that was thrown.
pub fn to_object(py: Python<'_>, error: &Error) -> PyResult<Py<PyAny>> {
    match error {
        Error::Host(host) => match host.object.downcast_ref::<Py<PyAny>>() {
            Some(object) => Ok(object.clone_ref(py)),
            None => make(py, Code::BackendUnavailable, &host.message),
        },
        Error::Coded { code, message } => make(py, *code, message),
    }
}

/// The exception to raise for an error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    match to_object(py, error) {
        Ok(object) => PyErr::from_value(object.into_bound(py)),
        Err(raised) => raised,
    }
}

fn make(py: Python<'_>, code: Code, message: &str) -> PyResult<Py<PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || {
        py.import("anarchon.errors")?.getattr("error_of_code").map(Bound::unbind)
    })?;
    make.call1(py, (code.as_str(), message))
}

/// A thrown object as an error of the core, with what records and logs say of it.
pub fn from_object(
    thrown: &Bound<'_, PyBaseException>,
    name: String,
    message: String,
    stack: Option<String>,
) -> Error {
    let object: Py<PyAny> = thrown.as_any().clone().unbind();
    Error::Host(HostError { object: Arc::new(object), name, message, stack })
}
