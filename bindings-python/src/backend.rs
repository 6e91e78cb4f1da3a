//! The built-in stores as Python objects, member by member of the contract.

use std::sync::Arc;

use anarchon::backend::contract::{
    Backend as CoreBackend, ClaimInput, ClaimRecord, RunClaim, RunStore, StoredResult,
};
use anarchon::backend::history;
use anarchon::backend::shared::SharedBackend;
use anarchon::backends;
use anarchon::backends::memory::MemoryBackend;
use anarchon::backends::mysql::MySqlBackend;
use anarchon::backends::postgres::PostgresBackend;
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::clock::{Clock, SystemClock};
use anarchon::error::{Code, Error, Result};
use anarchon::host::backend::{HostBackend, HostFacts};
use anarchon::host::names::Naming;
use anarchon::host::object::HostObject;
use anarchon::host::sql;
use anarchon::lease::model::{MissedRange, Status};
use pyo3::prelude::{PyRef, PyResult, Python};
use pyo3::{pyclass, pyfunction, pymethods};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::to_python;
use crate::object::PyObject;
use crate::runtime::{Bridge, Call, Inside, PortSlot, begin};
use crate::testing::ManualClock;
use crate::value::{from_text, to_text};

/// A built-in store.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Backend {
    /// As schedulers share it.
    shared: Arc<SharedBackend>,
    /// As it is called here: perhaps under a namespace.
    backend: Arc<dyn CoreBackend>,
    clock: Arc<dyn Clock>,
    ddl: Option<Vec<String>>,
    /// Where its methods are called, if it is a user's.
    slot: Option<Arc<PortSlot>>,
}

impl Backend {
    /// The store of a scheduler.
    pub fn of(
        shared: Arc<SharedBackend>,
        backend: Arc<dyn CoreBackend>,
        clock: Arc<dyn Clock>,
    ) -> Backend {
        Backend { shared, backend, clock, ddl: None, slot: None }
    }

    /// The store as it is called here.
    pub fn backend(&self) -> Arc<dyn CoreBackend> {
        self.backend.clone()
    }

    /// Where the methods of a user's store are called.
    pub fn slot(&self) -> Option<Arc<PortSlot>> {
        self.slot.clone()
    }

    /// The store as schedulers share it.
    pub fn shared(&self) -> Arc<SharedBackend> {
        self.shared.clone()
    }
}

/// A store in memory, of its own.
#[pyfunction]
#[pyo3(signature = (clock=None))]
pub fn memory_backend(clock: Option<PyRef<'_, ManualClock>>) -> PyResult<Backend> {
    let _inside = Inside::or_raise()?;
    let clock = clock.map_or_else(|| Arc::new(SystemClock) as Arc<dyn Clock>, |c| c.clock());
    let backend = Arc::new(MemoryBackend::new(clock.clone()));
    Ok(Backend::of(SharedBackend::new(backend.clone()), backend, clock))
}

/// The store that a URL of one of `schemes` names; touches no file and no socket.
#[pyfunction]
pub fn open_backend(py: Python<'_>, url: &str, schemes: Vec<String>) -> PyResult<Backend> {
    let _inside = Inside::or_raise()?;
    open(url, &schemes).map_err(|error| to_python(py, &error))
}

fn open(url: &str, schemes: &[String]) -> Result<Backend> {
    let scheme = url.split(':').next().unwrap_or_default();
    if !schemes.iter().any(|allowed| allowed == scheme) {
        let allowed = schemes.join(": or ");
        return Err(Error::option(format!(
            "the backend URL begins with {scheme:?}; allowed is {allowed}:"
        )));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sql = |ddl: Vec<String>, backend: Arc<dyn CoreBackend>| {
        let shared = SharedBackend::new(backend.clone());
        Backend { ddl: Some(ddl), ..Backend::of(shared, backend, clock.clone()) }
    };
    match scheme {
        "sqlite" => {
            let backend = SqliteBackend::from_url(url)?;
            return Ok(sql(backend.ddl(), Arc::new(backend)));
        }
        "postgres" | "postgresql" => {
            let backend = PostgresBackend::from_url(url)?;
            return Ok(sql(backend.ddl(), Arc::new(backend)));
        }
        "mysql" | "mariadb" => {
            let backend = MySqlBackend::from_url(url)?;
            return Ok(sql(backend.ddl(), Arc::new(backend)));
        }
        _ => {}
    }
    let backend = backends::open(url, &clock)?;
    Ok(Backend::of(SharedBackend::new(backend.clone()), backend, clock))
}

/// A user's backend, and the object behind its `runs` if it has one: numbers and facts (JSON).
#[pyfunction]
#[pyo3(signature = (facts, host, object, runs_host=None, runs=None))]
pub fn host_backend(
    py: Python<'_>,
    facts: &str,
    host: u64,
    object: &str,
    runs_host: Option<u64>,
    runs: Option<&str>,
) -> PyResult<Backend> {
    let _inside = Inside::or_raise()?;
    let slot = Arc::new(PortSlot::default());
    let take = |host: u64, facts: &str| -> Result<Arc<dyn HostObject>> {
        Ok(Arc::new(PyObject::new(host, from_text(facts)?, slot.clone())))
    };
    let open = || -> Result<Backend> {
        let read: Value = from_text(facts)?;
        let facts = HostFacts {
            name: read["name"].clone(),
            dedupe_window_ms: read["dedupeWindowMs"].clone(),
            keeps_result: read["keepsResult"] == true,
        };
        let runs = match (runs_host, runs) {
            (Some(host), Some(facts)) => Some(take(host, facts)?),
            _ => None,
        };
        let backend = HostBackend::new(take(host, object)?, runs, &facts, Naming::Snake)?;
        let backend: Arc<dyn CoreBackend> = Arc::new(backend);
        let shared = SharedBackend::new(backend.clone());
        let slot = Some(slot.clone());
        Ok(Backend { slot, ..Backend::of(shared, backend, Arc::new(SystemClock)) })
    };
    open().map_err(|error| to_python(py, &error))
}

/// A SQL store over a client of the user's: its number, its facts and the engine's options (JSON).
#[pyfunction]
pub fn host_sql(py: Python<'_>, host: u64, object: &str, options: &str) -> PyResult<Backend> {
    let _inside = Inside::or_raise()?;
    let slot = Arc::new(PortSlot::default());
    let open = || -> Result<Backend> {
        let object = Arc::new(PyObject::new(host, from_text(object)?, slot.clone()));
        let backend = Arc::new(sql::open(object, from_text(options)?, Naming::Snake)?);
        let ddl = Some(backend.ddl());
        let shared = SharedBackend::new(backend.clone());
        let backend = Backend::of(shared, backend, Arc::new(SystemClock));
        Ok(Backend { ddl, slot: Some(slot.clone()), ..backend })
    };
    open().map_err(|error| to_python(py, &error))
}

/// Merges claims and results (JSON arrays) into records, newest first.
#[pyfunction]
pub fn build_history(
    py: Python<'_>,
    job: &str,
    claims: &str,
    results: &str,
    limit: usize,
) -> PyResult<String> {
    let _inside = Inside::or_raise()?;
    let build = || {
        let claims: Vec<ClaimRecord> = from_text(claims)?;
        let results: Vec<StoredResult> = from_text(results)?;
        to_text(&history::build_history(job, &claims, &results, limit))
    };
    build().map_err(|error| to_python(py, &error))
}

#[pymethods]
impl Backend {
    #[getter]
    fn name(&self) -> String {
        self.backend.name()
    }

    /// How long a claim is remembered (ms); `None` for ever.
    #[getter]
    fn dedupe_window_ms(&self) -> Option<i64> {
        self.backend.dedupe_window_ms()
    }

    #[getter]
    fn has_leases(&self) -> bool {
        self.backend.runs().is_some()
    }

    /// The statements that create its tables, if it has tables.
    fn ddl(&self) -> Option<Vec<String>> {
        self.ddl.clone()
    }

    /// Raises what the store has against a job.
    fn check_job(&self, py: Python<'_>, limits: &str) -> PyResult<()> {
        let _inside = Inside::or_raise()?;
        let check = || self.backend.check_job(&from_text(limits)?);
        check().map_err(|error| to_python(py, &error))
    }

    /// Calls a member of the contract (`claim`, `runs.claim` …) with a JSON array of arguments.
    fn ask(&self, bridge: &Bridge, call: u64, member: String, arguments: String) -> PyResult<Call> {
        let _inside = Inside::or_raise()?;
        let backend = self.backend.clone();
        if let Some(slot) = &self.slot {
            slot.set_if_none(&bridge.port);
        }
        begin(&bridge.port, call, &*self.clock, async move {
            let given = Arguments { member: &member, values: from_text(&arguments)? };
            match member.strip_prefix("runs.") {
                None => answer(&*backend, &given).await,
                Some(name) => match backend.runs() {
                    Some(runs) => answer_runs(runs, name, &given).await,
                    None => Err(Error::new(
                        Code::LeasesRequired,
                        format!("the store {:?} has no leases", backend.name()),
                    )),
                },
            }
        })
    }
}

/// The arguments of a call.
struct Arguments<'a> {
    member: &'a str,
    values: Vec<Value>,
}

impl Arguments<'_> {
    fn get<T: DeserializeOwned>(&self, index: usize) -> Result<T> {
        let value = self.values.get(index).cloned().unwrap_or(Value::Null);
        serde_json::from_value(value).map_err(|error| {
            Error::option(format!("{}: argument {} is wrong: {error}", self.member, index + 1))
        })
    }

    fn text(&self, index: usize) -> Result<String> {
        self.get(index)
    }
}

fn told<T: Serialize>(value: &T) -> Result<Option<String>> {
    to_text(value).map(Some)
}

async fn answer(backend: &dyn CoreBackend, given: &Arguments<'_>) -> Result<Option<String>> {
    match given.member {
        "init" => backend.init().await.map(|()| None),
        "close" => backend.close().await.map(|()| None),
        "prepareJob" => backend.prepare_job(&given.get(0)?).await.map(|()| None),
        "claim" => told(&backend.claim(&given.get(0)?).await?),
        "recordManualRun" => told(&backend.record_manual_run(&given.get(0)?).await?),
        "recordClaim" => backend.record_claim(&given.get(0)?).await.map(|()| None),
        "saveResult" => {
            let (job, result) = (given.text(0)?, given.get(1)?);
            let (size, ttl) = (given.get(2)?, given.get(3)?);
            backend.save_result(&job, &result, size, ttl).await.map(|()| None)
        }
        "history" => told(&backend.history(&given.text(0)?, given.get(1)?).await?),
        _ => Err(unknown(given.member)),
    }
}

async fn answer_runs(
    runs: &dyn RunStore,
    name: &str,
    given: &Arguments<'_>,
) -> Result<Option<String>> {
    match name {
        "claim" => told(&runs.claim(&given.get::<RunClaim>(0)?).await?),
        "heartbeat" => {
            let (job, slot, token) = (given.text(0)?, given.get(1)?, given.text(2)?);
            told(&runs.heartbeat(&job, slot, &token, given.get(3)?).await?)
        }
        "finish" => {
            let (job, slot, token) = (given.text(0)?, given.get(1)?, given.text(2)?);
            let status: Status = given.get(3)?;
            let result: Option<StoredResult> = given.get(4)?;
            told(&runs.finish(&job, slot, &token, status, result.as_ref()).await?)
        }
        "release" => {
            let (job, slot, token) = (given.text(0)?, given.get(1)?, given.text(2)?);
            told(&runs.release(&job, slot, &token).await?)
        }
        "active" => told(&runs.active(&given.text(0)?).await?),
        "survey" => told(&runs.survey(&given.text(0)?).await?),
        "claimManual" => told(&runs.claim_manual(&given.get::<ClaimInput>(0)?).await?),
        "recordMissed" => {
            told(&runs.record_missed(&given.text(0)?, &given.get::<MissedRange>(1)?).await?)
        }
        "setPaused" => {
            let paused: Option<anarchon::backend::contract::PauseRequest> = given.get(1)?;
            runs.set_paused(&given.text(0)?, paused.as_ref()).await.map(|()| None)
        }
        "cancel" => told(&runs.cancel(&given.text(0)?, given.get(1)?, given.get(2)?).await?),
        "forget" => told(&runs.forget(&given.text(0)?).await?),
        _ => Err(unknown(given.member)),
    }
}

fn unknown(member: &str) -> Error {
    Error::option(format!("a backend has no member {member:?}"))
}
