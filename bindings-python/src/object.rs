//! A Python object whose methods the core calls by name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::error::{Code, Error, Result};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::{Bound, PyResult, Python};
use pyo3::{pyclass, pymethods};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::error::{from_object, to_python};
use crate::runtime::{Inside, Message, Port};
use crate::value::{from_text, to_text};

/// One call of a method, as both sides know it.
pub struct CallState {
    id: u64,
    member: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
    answer: Mutex<Option<oneshot::Sender<Result<Value>>>>,
}

impl CallState {
    fn answer(&self, answer: Result<Value>) {
        let sender = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Nobody waits for a call whose deadline is over.
            let _late = sender.send(answer);
        }
    }
}

/// Calls a method of the object that Python knows by `host`, and waits for its answer.
///
/// Dropped before the answer, it cancels the method where Python can cancel it.
pub async fn ask(
    port: &Arc<Port>,
    host: u64,
    member: &str,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
) -> Result<Value> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (sender, answered) = oneshot::channel();
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let member = member.to_owned();
    let answer = Mutex::new(Some(sender));
    let call = Arc::new(CallState { id, member, positional, named, answer });
    let mut waiting = Waiting { port: port.clone(), host, call: id, answered: false };
    port.send(Message::Ask { host, call });
    let answer = answered.await;
    waiting.answered = true;
    answer.unwrap_or_else(|_| {
        Err(Error::new(Code::BackendUnavailable, "the event loop of this object is gone"))
    })
}

struct Waiting {
    port: Arc<Port>,
    host: u64,
    call: u64,
    answered: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.answered {
            self.port.send(Message::Forget { host: self.host, call: self.call });
        }
    }
}

/// One call of a method.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct HostCall {
    state: Arc<CallState>,
}

impl HostCall {
    pub fn new(state: Arc<CallState>) -> HostCall {
        HostCall { state }
    }
}

#[pymethods]
impl HostCall {
    /// The number by which the core forgets it.
    #[getter]
    fn id(&self) -> u64 {
        self.state.id
    }

    /// The name of the method.
    #[getter]
    fn member(&self) -> &str {
        &self.state.member
    }

    /// `[positional, named]` as JSON: an array and an object.
    fn arguments(&self, py: Python<'_>) -> PyResult<String> {
        let _inside = Inside::or_raise()?;
        let named: serde_json::Map<String, Value> = self.state.named.iter().cloned().collect();
        to_text(&(&self.state.positional, named)).map_err(|error| to_python(py, &error))
    }

    /// The method has answered, with this value as JSON.
    fn returned(&self, answer: &str) {
        if let Some(_inside) = Inside::enter() {
            self.state.answer(from_text(answer));
        }
    }

    /// The method has raised.
    fn threw(
        &self,
        thrown: &Bound<'_, PyBaseException>,
        name: String,
        message: String,
        stack: Option<String>,
    ) {
        if let Some(_inside) = Inside::enter() {
            self.state.answer(Err(from_object(thrown, name, message, stack)));
        }
    }
}
