//! Backends as JavaScript sees them: ours as objects whose methods a program may call.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, JobLimits, PauseRequest, RunStore};
use anarchon::backend::shared::SharedBackend;
use anarchon::backends::memory::MemoryBackend;
use anarchon::backends::mysql::MySqlBackend;
use anarchon::backends::postgres::PostgresBackend;
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::clock::{Clock, SystemClock};
use anarchon::error::{Error, Result};
use anarchon::host::backend::{HostBackend, HostFacts};
use anarchon::host::names::Naming;
use anarchon::host::object::HostObject;
use anarchon::scheduler::Scheduler;
use napi_derive::napi;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::throw;
use crate::object::JsObject;
use crate::runtime::{NativePort, shared, stepped};
use crate::testing::NativeClock;
use crate::value::{parse, parse_object, settled};

/// A store of ours.
#[napi]
pub struct NativeBackend {
    /// What schedulers share.
    pub(crate) shared: Arc<SharedBackend>,
    /// What a program that calls its members talks to.
    backend: Arc<dyn Backend>,
    stepped: bool,
    ddl: Option<Vec<String>>,
}

impl NativeBackend {
    /// The backend that a scheduler uses.
    pub fn of_scheduler(core: &Scheduler) -> NativeBackend {
        let stepped = core.clock().is_manual();
        let (shared, backend) = (core.shared(), core.backend());
        NativeBackend { shared, backend, stepped, ddl: None }
    }
}

#[napi]
impl NativeBackend {
    /// The store that a URL of one of `schemes` names; touches no file and no socket.
    #[napi(factory, catch_unwind)]
    pub fn open(url: String, schemes: Vec<String>) -> napi::Result<NativeBackend, String> {
        open(&url, &schemes).map_err(throw)
    }

    /// An object of the user's, and the object behind its property `runs` if it has one. `facts` is
    /// JSON text of its properties.
    #[napi(factory, catch_unwind)]
    pub fn host(
        port: &NativePort,
        class: String,
        target: u32,
        members: Vec<String>,
        runs_target: Option<u32>,
        runs_members: Option<Vec<String>>,
        facts: String,
    ) -> napi::Result<NativeBackend, String> {
        let object = |target, class, members| {
            Arc::new(JsObject::new(port.port.clone(), target, class, members))
                as Arc<dyn HostObject>
        };
        let runs = runs_target.map(|target| {
            object(target, format!("{class}.runs"), runs_members.unwrap_or_default())
        });
        let build = || {
            let facts = parse_object("the backend's properties", &facts)?;
            let fact = |name: &str| facts.get(name).cloned().unwrap_or(Value::Null);
            let facts = HostFacts {
                name: fact("name"),
                dedupe_window_ms: fact("dedupeWindowMs"),
                keeps_result: fact("keepsResult") == Value::Bool(true),
            };
            HostBackend::new(object(target, class, members), runs, &facts, Naming::Camel)
        };
        let backend = build().map_err(throw)?;
        Ok(NativeBackend::of(Arc::new(backend), false))
    }

    /// A SQL store over a client of the user's, known as the target `target`.
    #[napi(factory, catch_unwind)]
    pub fn host_sql(
        port: &NativePort,
        class: String,
        target: u32,
        members: Vec<String>,
        options: String,
    ) -> napi::Result<NativeBackend, String> {
        let object = Arc::new(JsObject::new(port.port.clone(), target, class, members));
        let open = || {
            let options = parse("the options", &options)?;
            anarchon::host::sql::open(object, options, Naming::Camel)
        };
        let backend = open().map_err(throw)?;
        let ddl = Some(backend.ddl());
        Ok(NativeBackend { ddl, ..NativeBackend::of(Arc::new(backend), false) })
    }

    /// Hands this store to the call of the core that asked for it.
    #[napi(catch_unwind)]
    pub fn offer(&self, port: &NativePort) -> u32 {
        port.port.offer(self.backend.clone())
    }

    /// A store in memory, of its own.
    #[napi(factory, catch_unwind)]
    pub fn memory(clock: Option<&NativeClock>) -> NativeBackend {
        let stepped = clock.is_some();
        let clock: Arc<dyn Clock> = match clock {
            Some(clock) => Arc::new(clock.clock.clone()),
            None => Arc::new(SystemClock),
        };
        NativeBackend::of(Arc::new(MemoryBackend::new(clock)), stepped)
    }

    fn of(backend: Arc<dyn Backend>, stepped: bool) -> NativeBackend {
        let shared = SharedBackend::new(backend.clone());
        NativeBackend { shared, backend, stepped, ddl: None }
    }

    /// Its name, for example `sqlite`.
    #[napi(catch_unwind)]
    pub fn backend_name(&self) -> String {
        self.backend.name()
    }

    /// The statements that create its tables, if it has tables.
    #[napi(catch_unwind)]
    pub fn ddl(&self) -> Option<Vec<String>> {
        self.ddl.clone()
    }

    /// Whether it has leases.
    #[napi(catch_unwind)]
    pub fn has_runs(&self) -> bool {
        self.backend.runs().is_some()
    }

    /// How long it remembers a claim (ms); nothing for ever.
    #[napi(catch_unwind)]
    pub fn dedupe_window_ms(&self) -> Option<f64> {
        self.backend.dedupe_window_ms().map(crate::testing::number)
    }

    /// Throws what the store has against a job.
    #[napi(catch_unwind)]
    pub fn check_job(&self, limits: String) -> napi::Result<(), String> {
        let check = || {
            let limits: JobLimits = read("checkJob", parse("limits", &limits)?)?;
            self.backend.check_job(&limits)
        };
        check().map_err(throw)
    }

    /// Calls a member of the contract with a JSON list of arguments and settles `ask`.
    #[napi(catch_unwind)]
    pub fn call(&self, port: &NativePort, ask: u32, member: String, arguments: String) {
        let backend = self.backend.clone();
        let runtime = if self.stepped { stepped() } else { shared() };
        port.port.ask(ask, &runtime, None, async move {
            call(&*backend, Arguments::new(&member, &arguments)?).await
        });
    }
}

fn open(url: &str, schemes: &[String]) -> Result<NativeBackend> {
    let scheme = url.split(':').next().unwrap_or_default();
    if !schemes.iter().any(|allowed| allowed == scheme) {
        let allowed = schemes.join(": or ");
        return Err(Error::option(format!(
            "the backend URL begins with {scheme:?}; allowed is {allowed}:"
        )));
    }
    let sql = |ddl, backend| NativeBackend { ddl: Some(ddl), ..NativeBackend::of(backend, false) };
    Ok(match scheme {
        "sqlite" => {
            let backend = SqliteBackend::from_url(url)?;
            sql(backend.ddl(), Arc::new(backend))
        }
        "postgres" | "postgresql" => {
            let backend = PostgresBackend::from_url(url)?;
            sql(backend.ddl(), Arc::new(backend))
        }
        "mysql" | "mariadb" => {
            let backend = MySqlBackend::from_url(url)?;
            sql(backend.ddl(), Arc::new(backend))
        }
        _ => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            NativeBackend::of(anarchon::backends::open(url, &clock)?, false)
        }
    })
}

/// The arguments of a call, in order.
struct Arguments {
    member: String,
    values: std::vec::IntoIter<Value>,
}

impl Arguments {
    fn new(member: &str, text: &str) -> Result<Arguments> {
        let values: Vec<Value> = read(member, parse("the arguments", text)?)?;
        Ok(Arguments { member: member.to_owned(), values: values.into_iter() })
    }

    /// The next one; `null` for one that was left out.
    fn next<T: DeserializeOwned>(&mut self) -> Result<T> {
        let value = self.values.next().unwrap_or(Value::Null);
        read(&self.member, value)
    }
}

fn read<T: DeserializeOwned>(member: &str, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| {
        Error::option(format!("{member} was called with arguments that it cannot read: {error}"))
    })
}

async fn call(backend: &dyn Backend, mut given: Arguments) -> Result<Option<String>> {
    let member = given.member.clone();
    if let Some(member) = member.strip_prefix("runs.") {
        let Some(runs) = backend.runs() else { return Err(no_member(backend, member)) };
        return call_runs(backend, runs, member, given).await;
    }
    match member.as_str() {
        "init" => settled(backend.init().await),
        "close" => settled(backend.close().await),
        "prepareJob" => {
            let (name, history_size): (String, i64) = (given.next()?, given.next()?);
            let limits: Option<JobLimits> = given.next()?;
            let plain = JobLimits { name, history_size, ..JobLimits::default() };
            settled(backend.prepare_job(&limits.unwrap_or(plain)).await)
        }
        "claim" => settled(backend.claim(&given.next()?).await),
        "recordManualRun" => settled(backend.record_manual_run(&given.next()?).await),
        "recordClaim" => settled(backend.record_claim(&given.next()?).await),
        "saveResult" => {
            let (job, result): (String, _) = (given.next()?, given.next()?);
            let (size, ttl) = (given.next()?, given.next()?);
            settled(backend.save_result(&job, &result, size, ttl).await)
        }
        "history" => {
            let (job, limit): (String, _) = (given.next()?, given.next()?);
            settled(backend.history(&job, limit).await)
        }
        _ => Err(no_member(backend, &member)),
    }
}

async fn call_runs(
    backend: &dyn Backend,
    runs: &dyn RunStore,
    member: &str,
    mut given: Arguments,
) -> Result<Option<String>> {
    match member {
        "claim" => return settled(runs.claim(&given.next()?).await),
        "claimManual" => return settled(runs.claim_manual(&given.next()?).await),
        _ => {}
    }
    let job: String = given.next()?;
    match member {
        "heartbeat" => {
            let (slot, token, lease): (_, String, _) =
                (given.next()?, given.next()?, given.next()?);
            settled(runs.heartbeat(&job, slot, &token, lease).await)
        }
        "finish" => {
            let (slot, token, status): (_, String, _) =
                (given.next()?, given.next()?, given.next()?);
            let result: Option<_> = given.next()?;
            settled(runs.finish(&job, slot, &token, status, result.as_ref()).await)
        }
        "release" => {
            let (slot, token): (_, String) = (given.next()?, given.next()?);
            settled(runs.release(&job, slot, &token).await)
        }
        "active" => settled(runs.active(&job).await),
        "survey" => settled(runs.survey(&job).await),
        "recordMissed" => settled(runs.record_missed(&job, &given.next()?).await),
        "setPaused" => {
            let paused: Option<PauseRequest> = given.next()?;
            settled(runs.set_paused(&job, paused.as_ref()).await)
        }
        "cancel" => settled(runs.cancel(&job, given.next()?, given.next()?).await),
        "forget" => settled(runs.forget(&job).await),
        _ => Err(no_member(backend, member)),
    }
}

fn no_member(backend: &dyn Backend, member: &str) -> Error {
    Error::option(format!("the backend {:?} has no member {member}", backend.name()))
}
