//! For tests: a clock that moves when told to, and the suite that holds a store to the contract.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::clock::{Clock, SystemClock};
use anarchon::error::{Error, Result};
use anarchon::testing::ManualClock as CoreClock;
use anarchon::testing::conformance::{self, CheckOptions, Opening};
use pyo3::prelude::{PyRef, PyResult, Python};
use pyo3::{pyclass, pyfunction, pymethods};
use serde::Deserialize;
use serde_json::json;

use crate::backend::Backend;
use crate::error::to_python;
use crate::runtime::{Bridge, Call, Inside, Port, begin, runtime, spawn};
use crate::value::{from_text, to_text};

/// A clock that moves when told to.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct ManualClock {
    clock: CoreClock,
}

impl ManualClock {
    /// The clock as the core takes it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (wall_ms=None))]
    fn new(wall_ms: Option<i64>) -> ManualClock {
        ManualClock { clock: wall_ms.map_or_else(CoreClock::default, CoreClock::new) }
    }

    /// The wall clock (ms since the Unix epoch).
    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// The monotonic clock (ms).
    fn mono_ms(&self) -> i64 {
        self.clock.mono_ms()
    }

    /// Whether nothing is going on.
    fn is_idle(&self) -> bool {
        self.clock.activity().is_none_or(anarchon::clock::Activity::is_idle)
    }

    /// Answers when nothing is going on in the core: then moves to the next due time not after
    /// `target` (ms, monotonic; none: does not move), unless one of these loops has messages to
    /// fetch. `"moved"`, `"unread"`, or `"done"` if nothing more is due.
    #[pyo3(signature = (bridge, call, target, loops))]
    fn settle(
        &self,
        bridge: &Bridge,
        call: u64,
        target: Option<i64>,
        loops: Vec<PyRef<'_, Bridge>>,
    ) -> PyResult<Call> {
        let _inside = Inside::or_raise()?;
        let clock = self.clock.clone();
        let ports: Vec<Arc<Port>> = loops.iter().map(|bridge| bridge.port.clone()).collect();
        Ok(spawn(&bridge.port, call, &runtime(&self.clock)?, None, async move {
            clock.settle().await;
            // In one step, on the one thread on which everything lives by this clock: nobody can
            // begin anything in between.
            let outcome = if ports.iter().any(|port| !port.is_empty()) {
                "unread"
            } else if target.is_some_and(|target| clock.step(target)) {
                "moved"
            } else {
                "done"
            };
            Ok(Some(outcome.to_owned()))
        }))
    }

    /// Steps the wall clock alone (ms, back if negative).
    fn step_wall(&self, ms: i64) {
        if let Some(_inside) = Inside::enter() {
            self.clock.step_wall(ms);
        }
    }
}

/// The names of all cases of the conformance suite, in order.
#[pyfunction]
pub fn case_names() -> Vec<&'static str> {
    conformance::case_names()
}

/// Holds a store against the contract; `clients` are open to one and the same. Answers the report.
#[pyfunction]
pub fn check_backend(
    py: Python<'_>,
    bridge: &Bridge,
    call: u64,
    clients: Vec<PyRef<'_, Backend>>,
    options: &str,
) -> PyResult<Call> {
    let _inside = Inside::or_raise()?;
    let options = read_options(options).map_err(|error| to_python(py, &error))?;
    for slot in clients.iter().filter_map(|client| client.slot()) {
        slot.set_if_none(&bridge.port);
    }
    let mut clients = clients.iter().map(|client| client.backend()).collect::<VecDeque<_>>();
    let options = CheckOptions { clients: clients.len(), ..options };
    begin(&bridge.port, call, &SystemClock, async move {
        let clients = Mutex::new(std::mem::take(&mut clients));
        let open = || -> Opening {
            let next = clients.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let next = next.ok_or_else(|| Error::option("give at least two clients"));
            Box::pin(std::future::ready(next))
        };
        let report = conformance::check_backend(open, &options).await;
        let text = report.to_string();
        Ok(Some(to_text(&json!({ "report": report, "text": text }))?))
    })
}

fn read_options(text: &str) -> Result<CheckOptions> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Given {
        rounds: usize,
        histories: usize,
        steps: usize,
        seed: u64,
        case_timeout_ms: i64,
        complete: bool,
        only: Vec<String>,
    }
    let given: Given = from_text(text)?;
    Ok(CheckOptions {
        rounds: given.rounds,
        histories: given.histories,
        steps: given.steps,
        seed: given.seed,
        case_timeout_ms: given.case_timeout_ms,
        complete: given.complete,
        only: given.only,
        ..CheckOptions::default()
    })
}
