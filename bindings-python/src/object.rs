//! A Python object whose methods the core calls by name.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::clock::SystemClock;
use anarchon::error::{Code, Error, Result};
use anarchon::host::object::{HostBody, HostObject};
use async_trait::async_trait;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::{Bound, PyResult, Python};
use pyo3::{pyclass, pymethods};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::error::{from_object, to_python};
use crate::runtime::{Bridge, Call, Inside, Message, Port, PortSlot, begin};
use crate::value::{from_text, to_text};

/// An object of Python's, known there under a number.
pub struct PyObject {
    host: u64,
    facts: Arc<ObjectFacts>,
    slot: Arc<PortSlot>,
}

/// What is read of an object when it is handed over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectFacts {
    /// Its class.
    class: String,
    /// The members that it has.
    members: HashSet<String>,
    /// `member.argument` for the arguments that may be passed by keyword.
    takes: HashSet<String>,
}

impl PyObject {
    /// The object with the number `host`, called on the loop of `slot`.
    pub fn new(host: u64, facts: ObjectFacts, slot: Arc<PortSlot>) -> PyObject {
        PyObject { host, facts: Arc::new(facts), slot }
    }

    async fn ask(
        &self,
        member: &str,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
        body: Option<HostBody>,
    ) -> Result<Value> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let gone = || {
            let text = format!("the event loop that {} is called on is gone", self.facts.class);
            Error::new(Code::BackendUnavailable, text)
        };
        let port = self.slot.get().ok_or_else(gone)?;
        let (sender, answered) = oneshot::channel();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(CallState {
            id,
            member: member.to_owned(),
            positional,
            named,
            body,
            facts: self.facts.clone(),
            slot: self.slot.clone(),
            answer: Mutex::new(Some(sender)),
        });
        let mut waiting = Waiting { port, host: self.host, call: id, answered: false };
        waiting.port.send(Message::Ask { host: self.host, call });
        let answer = answered.await;
        waiting.answered = true;
        answer.map_err(|_| gone())?
    }
}

#[async_trait]
impl HostObject for PyObject {
    fn describe(&self) -> String {
        self.facts.class.clone()
    }

    fn has(&self, member: &str) -> bool {
        self.facts.members.contains(member)
    }

    fn takes(&self, member: &str, argument: &str) -> bool {
        self.facts.takes.contains(&format!("{member}.{argument}"))
    }

    async fn call(
        &self,
        member: &str,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Value> {
        self.ask(member, positional, named, None).await
    }

    async fn transaction(&self, body: HostBody) -> Result<()> {
        self.ask("transaction", Vec::new(), Vec::new(), Some(body)).await.map(|_ignored| ())
    }
}

/// One call of a method, as both sides know it.
pub struct CallState {
    id: u64,
    member: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
    /// What a transaction runs.
    body: Option<HostBody>,
    facts: Arc<ObjectFacts>,
    slot: Arc<PortSlot>,
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

/// A call that is waited for; given up, it cancels the method where Python can cancel it.
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

    /// Runs the body of a transaction on the object that Python knows by `host`.
    fn run_body(&self, bridge: &Bridge, call: u64, host: u64) -> PyResult<Call> {
        let _inside = Inside::or_raise()?;
        let body = self.state.body.clone();
        let (facts, slot) = (self.state.facts.clone(), self.state.slot.clone());
        begin(&bridge.port, call, &SystemClock, async move {
            let Some(body) = body else { return Ok(None) };
            body(Arc::new(PyObject { host, facts, slot })).await.map(|()| None)
        })
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
