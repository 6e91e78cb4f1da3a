//! The scheduler's native half: every method is convert, call the core, convert back.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::clock::{ActivityGuard, Clock, busy};
use anarchon::error::{Code, Error, Result};
use anarchon::events::Event;
use anarchon::host::names::Naming;
use anarchon::schedule::zone;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, JobOptions, RunNow,
    Scheduler as CoreScheduler, SchedulerOptions, When,
};
use async_trait::async_trait;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::{Bound, Py, PyAny, PyRef, PyResult, Python};
use pyo3::{pyclass, pyfunction, pymethods};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::error::{from_object, to_object, to_python};
use crate::runtime::{
    Bell, Bridge, Call, Inside, Message, Port, PortSlot, RawBell, begin, runtime,
};
use crate::testing::ManualClock;
use crate::value::{from_text, object, to_text};

/// The names of all events, in camelCase.
#[pyfunction]
pub fn event_names() -> Vec<&'static str> {
    Event::NAMES.to_vec()
}

/// The names of all job options, in camelCase.
#[pyfunction]
pub fn job_option_names() -> Vec<&'static str> {
    JobOptions::names().collect()
}

/// A scheduler of the core.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Scheduler {
    /// `None` only while it is dropped.
    core: Option<CoreScheduler>,
    id: u64,
    slot: Arc<PortSlot>,
    /// Where the methods of a user's backend are called.
    backend_slot: Option<Arc<PortSlot>>,
    /// The process that has used its store and not stopped it since; 0 for none.
    process: Arc<AtomicU32>,
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // In a child of `fork` the threads are gone that would let go of its locks.
        if self.is_inherited() {
            std::mem::forget(self.core.take());
        }
    }
}

impl Scheduler {
    fn core(&self) -> &CoreScheduler {
        self.core.as_ref().expect("there until it is dropped")
    }

    fn is_inherited(&self) -> bool {
        let process = self.process.load(Ordering::SeqCst);
        process != 0 && process != std::process::id()
    }

    /// Refuses a scheduler that another process has started.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_inherited() {
            return Ok(());
        }
        let text = format!(
            "this scheduler was started in process {} and is used in its child {}; a child does not \
             inherit what runs in its parent: create it before the fork if you like, but start it \
             after the fork, in each child",
            self.process.load(Ordering::SeqCst),
            std::process::id()
        );
        Err(to_python(py, &Error::new(Code::Forked, text)))
    }

    /// Begins a call of the core that may use the store.
    fn call<W, F>(&self, py: Python<'_>, bridge: &Bridge, call: u64, work: W) -> PyResult<Call>
    where
        W: FnOnce(CoreScheduler) -> F,
        F: Future<Output = Result<Option<String>>> + Send + 'static,
    {
        let _inside = Inside::or_raise()?;
        self.check_process(py)?;
        self.slot.set_if_none(&bridge.port);
        if let Some(slot) = &self.backend_slot {
            slot.set_if_none(&bridge.port);
        }
        self.process.store(std::process::id(), Ordering::SeqCst);
        let core = self.core().clone();
        let clock = core.clock();
        begin(&bridge.port, call, &*clock, work(core))
    }

    fn definition(
        &self,
        name: &str,
        kind: &str,
        when: &str,
        options: &str,
        handler: u64,
    ) -> Result<JobDefinition> {
        let handler = HostHandler {
            scheduler: self.id,
            handler,
            slot: self.slot.clone(),
            clock: self.core().clock(),
        };
        Ok(JobDefinition {
            name: name.to_owned(),
            when: read_when(kind, when)?,
            options: JobOptions::from_json(&object(options)?, Naming::Snake)?,
            handler: Arc::new(handler),
        })
    }
}

fn read_when(kind: &str, when: &str) -> Result<When> {
    let value: serde_json::Value = from_text(when)?;
    Ok(match kind {
        "every" => When::Every(value),
        "cron" => When::Cron(value.as_str().map(str::to_owned).ok_or_else(|| {
            Error::schedule(format!("the cron expression is {value}; it must be a text"))
        })?),
        _ => When::At(value),
    })
}

fn raise<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    result.map_err(|error| to_python(py, &error))
}

#[pymethods]
impl Scheduler {
    #[new]
    #[pyo3(signature = (id, options, url=None, backend=None, clock=None))]
    fn new(
        py: Python<'_>,
        id: u64,
        options: &str,
        url: Option<String>,
        backend: Option<PyRef<'_, Backend>>,
        clock: Option<PyRef<'_, ManualClock>>,
    ) -> PyResult<Scheduler> {
        let _inside = Inside::or_raise()?;
        let backend_slot = backend.as_ref().and_then(|backend| backend.slot());
        let read = || -> Result<CoreScheduler> {
            let mut options = SchedulerOptions::from_json(
                &object(options)?,
                &["backend", "clock"],
                Naming::Snake,
            )?;
            options.backend = match (backend, url) {
                (Some(backend), _) => Some(BackendSource::Object(backend.shared())),
                (None, url) => url.map(BackendSource::Url),
            };
            options.clock = clock.map(|clock| clock.clock());
            CoreScheduler::new(options)
        };
        let core = raise(py, read())?;
        let slot = Arc::new(PortSlot::default());
        let events = slot.clone();
        core.subscribe(Arc::new(move |event: &Event| {
            let Some(port) = events.get() else { return };
            let payload = to_text(event).unwrap_or_else(|_| "{}".to_owned());
            let (name, error) = (event.name(), event.error().cloned());
            port.send(Message::Event { scheduler: id, name, payload, error });
        }));
        Ok(Scheduler { core: Some(core), id, slot, backend_slot, process: Arc::default() })
    }

    /// What the job will ask of the store, as JSON; refuses what `add` would refuse.
    fn check_job(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        when: &str,
        options: &str,
    ) -> PyResult<String> {
        let _inside = Inside::or_raise()?;
        self.check_process(py)?;
        let check =
            || to_text(&self.core().check(&self.definition(name, kind, when, options, 0)?)?);
        raise(py, check())
    }

    /// Adds a job whose handler Python knows by a number; answers warnings about its schedule.
    fn add(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        when: &str,
        options: &str,
        handler: u64,
    ) -> PyResult<Vec<String>> {
        let _inside = Inside::or_raise()?;
        self.check_process(py)?;
        let add = || self.core().add(self.definition(name, kind, when, options, handler)?);
        raise(py, add())
    }

    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let _inside = Inside::or_raise()?;
        self.check_process(py)?;
        raise(py, self.core().remove(name))
    }

    #[pyo3(signature = (name, count, from_=None))]
    fn next_slots(
        &self,
        py: Python<'_>,
        name: &str,
        count: usize,
        from_: Option<i64>,
    ) -> PyResult<Vec<i64>> {
        let _inside = Inside::or_raise()?;
        raise(py, self.core().next_slots(name, count, from_))
    }

    /// The registered jobs as JSON.
    fn jobs(&self, py: Python<'_>) -> PyResult<String> {
        let _inside = Inside::or_raise()?;
        raise(py, to_text(&self.core().jobs()))
    }

    #[getter]
    fn running(&self) -> bool {
        !self.is_inherited() && self.core().running()
    }

    #[getter]
    fn instance_id(&self) -> Option<String> {
        self.core().instance_id()
    }

    #[getter]
    fn backend_name(&self) -> String {
        self.core().backend_name()
    }

    /// The store, as this scheduler uses it.
    fn backend(&self) -> Backend {
        let core = self.core();
        Backend::of(core.shared(), core.backend(), core.clock())
    }

    /// What a user should be warned of, if anything.
    fn notice(&self) -> Option<&str> {
        self.core().notice()
    }

    /// One line for the log at a start.
    fn summary(&self) -> String {
        self.core().summary()
    }

    /// Starts, and from now on talks over this bridge.
    fn start(&self, py: Python<'_>, bridge: &Bridge, call: u64, wait: bool) -> PyResult<Call> {
        self.check_process(py)?;
        self.slot.set(&bridge.port);
        self.call(py, bridge, call, |core| async move { core.start(wait).await.map(|()| None) })
    }

    #[pyo3(signature = (bridge, call, grace_ms=None))]
    fn stop(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        grace_ms: Option<i64>,
    ) -> PyResult<Call> {
        let process = self.process.clone();
        self.call(py, bridge, call, move |core| async move {
            let stopped = core.stop(grace_ms).await;
            process.store(0, Ordering::SeqCst);
            stopped.and_then(|report| to_text(&report)).map(Some)
        })
    }

    fn ready(&self, py: Python<'_>, bridge: &Bridge, call: u64) -> PyResult<Call> {
        self.call(py, bridge, call, |core| async move { core.ready().await.map(|()| None) })
    }

    /// With what cancels the run; its record is answered all the same.
    #[expect(clippy::too_many_arguments, reason = "those of the method, which Python names")]
    #[pyo3(signature = (bridge, call, name, slot, force, wait))]
    fn run_now(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        name: String,
        slot: Option<i64>,
        force: bool,
        wait: bool,
    ) -> PyResult<(Call, Cancel)> {
        let token = CancellationToken::new();
        let how = RunNow { slot, force, no_wait: !wait, cancel: Some(token.clone()) };
        let begun = self.call(py, bridge, call, |core| async move {
            core.run_now(&name, how).await.and_then(|record| to_text(&record)).map(Some)
        })?;
        Ok((begun, Cancel { token }))
    }

    fn history(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        name: String,
        limit: usize,
        missed: bool,
    ) -> PyResult<Call> {
        self.call(py, bridge, call, move |core| async move {
            core.history(&name, limit, missed).await.and_then(|found| to_text(&found)).map(Some)
        })
    }

    fn active(&self, py: Python<'_>, bridge: &Bridge, call: u64, name: String) -> PyResult<Call> {
        self.call(py, bridge, call, |core| async move {
            core.active(&name).await.and_then(|found| to_text(&found)).map(Some)
        })
    }

    fn explain(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        name: String,
        slot: i64,
    ) -> PyResult<Call> {
        self.call(py, bridge, call, move |core| async move {
            core.explain(&name, slot).await.and_then(|found| to_text(&found)).map(Some)
        })
    }

    #[pyo3(signature = (bridge, call, name, reason=None))]
    fn pause(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        name: String,
        reason: Option<String>,
    ) -> PyResult<Call> {
        self.call(
            py,
            bridge,
            call,
            |core| async move { core.pause(&name, reason).await.map(|()| None) },
        )
    }

    fn resume(&self, py: Python<'_>, bridge: &Bridge, call: u64, name: String) -> PyResult<Call> {
        self.call(py, bridge, call, |core| async move { core.resume(&name).await.map(|()| None) })
    }

    #[pyo3(signature = (bridge, call, name, slot=None))]
    fn cancel(
        &self,
        py: Python<'_>,
        bridge: &Bridge,
        call: u64,
        name: String,
        slot: Option<i64>,
    ) -> PyResult<Call> {
        self.call(py, bridge, call, move |core| async move {
            core.cancel(&name, slot).await.map(|count| Some(count.to_string()))
        })
    }

    fn forget(&self, py: Python<'_>, bridge: &Bridge, call: u64, name: String) -> PyResult<Call> {
        self.call(py, bridge, call, |core| async move { core.forget(&name).await.map(|()| None) })
    }

    /// Cuts everything off at once, without a word to the store: the loop is gone.
    fn abort(&self) {
        if let Some(_inside) = Inside::enter()
            && !self.is_inherited()
        {
            self.core().abort();
            self.process.store(0, Ordering::SeqCst);
        }
    }
}

/// Cancels a run that was asked for by hand.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Cancel {
    token: CancellationToken,
}

#[pymethods]
impl Cancel {
    /// Cancels it.
    fn cancel(&self) {
        if let Some(_inside) = Inside::enter() {
            self.token.cancel();
        }
    }
}

/// A Python function as a handler of the core.
struct HostHandler {
    scheduler: u64,
    handler: u64,
    slot: Arc<PortSlot>,
    clock: Arc<dyn Clock>,
}

impl Drop for HostHandler {
    fn drop(&mut self) {
        if let Some(port) = self.slot.get() {
            port.send(Message::Drop { scheduler: self.scheduler, handler: self.handler });
        }
    }
}

#[async_trait]
impl Handler for HostHandler {
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Some(port) = self.slot.get() else {
            let text = "no event loop runs handlers; start the scheduler first";
            return HandlerEnd::Threw(Error::new(Code::Stopped, text));
        };
        let (answer, mut answered) = oneshot::channel();
        let run = Arc::new(RunState {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            context: context.clone(),
            clock: self.clock.clone(),
            answer: Mutex::new(Some(answer)),
            given_up: AtomicBool::new(false),
            bell: Mutex::default(),
        });
        let mut waiting = Waiting { port, scheduler: self.scheduler, run, ended: false };
        let (scheduler, handler, run) = (self.scheduler, self.handler, waiting.run.clone());
        waiting.port.send(Message::Run { scheduler, handler, run });
        let end = tokio::select! {
            biased;
            end = &mut answered => end,
            () = context.cancellation.cancelled() => {
                waiting.tell_cancelled();
                answered.await
            }
        };
        // Without an answer the loop is gone and nothing is known of the handler: as if the
        // process had ended, the run is left to its lease.
        let Ok((end, _busy)) = end else { return std::future::pending().await };
        waiting.ended = true;
        end
    }
}

/// A wait for the end of a handler; given up, it cancels the handler.
struct Waiting {
    port: Arc<Port>,
    scheduler: u64,
    run: Arc<RunState>,
    ended: bool,
}

impl Waiting {
    fn tell_cancelled(&self) {
        if let Some(bell) = &*self.run.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.ring();
        }
        self.port.send(Message::Cancel { scheduler: self.scheduler, run: self.run.id });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.ended {
            self.run.given_up.store(true, Ordering::SeqCst);
            self.tell_cancelled();
        }
    }
}

/// One try of a handler, as both sides know it.
pub struct RunState {
    id: u64,
    context: Arc<JobContext>,
    clock: Arc<dyn Clock>,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
    /// The core does not wait for it any more.
    given_up: AtomicBool,
    /// Rung at the cancellation, for threads that wait for it.
    bell: Mutex<Option<Arc<RawBell>>>,
}

/// How a handler ended; busy until the core has taken it.
type Answer = (HandlerEnd, Option<ActivityGuard>);

impl RunState {
    fn is_cancelled(&self) -> bool {
        self.context.cancellation.is_cancelled() || self.given_up.load(Ordering::SeqCst)
    }

    fn end(&self, end: HandlerEnd) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // Nobody waits for a run that was given up.
            let _given_up = answer.send((end, busy(&*self.clock)));
        }
    }
}

/// One try of a handler.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Run {
    state: Arc<RunState>,
}

impl Run {
    pub fn new(state: Arc<RunState>) -> Run {
        Run { state }
    }
}

#[pymethods]
impl Run {
    /// The number by which a cancellation names it.
    #[getter]
    fn id(&self) -> u64 {
        self.state.id
    }

    /// What the handler may know, as JSON.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let _inside = Inside::or_raise()?;
        let context = &self.state.context;
        let offset = zone::offset_seconds(&context.timezone, context.slot).unwrap_or(0);
        raise(
            py,
            to_text(&json!({
                "job": context.job,
                "slot": context.slot,
                "timezone": context.timezone,
                "offsetSeconds": offset,
                "instanceId": context.instance_id,
                "attempt": context.attempt,
                "retry": context.retry,
                "fence": context.fence,
                "token": context.token,
                "trigger": context.trigger,
                "manual": context.manual(),
            })),
        )
    }

    /// The function has been entered.
    fn entered(&self) {
        if let Some(_inside) = Inside::enter() {
            self.state.context.entered();
        }
    }

    /// The function has returned; its value as JSON.
    #[pyo3(signature = (output=None))]
    fn returned(&self, output: Option<String>) {
        if let Some(_inside) = Inside::enter() {
            self.state.end(HandlerEnd::Returned(output));
        }
    }

    /// The function has raised.
    fn threw(
        &self,
        thrown: &Bound<'_, PyBaseException>,
        name: String,
        message: String,
        stack: Option<String>,
    ) {
        if let Some(_inside) = Inside::enter() {
            self.state.end(HandlerEnd::Threw(from_object(thrown, name, message, stack)));
        }
    }

    /// Whether the run is to end.
    #[getter]
    fn cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// Why: an error of ours, or `None`.
    fn cancel_reason(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(_inside) = Inside::enter() else { return Ok(None) };
        let given_up = || {
            let text = "the scheduler was cut off: its event loop is gone";
            self.state.is_cancelled().then(|| Error::new(Code::Stopped, text))
        };
        let reason = self.state.context.cancellation.reason().or_else(given_up);
        reason.map(|error| to_object(py, &error)).transpose()
    }

    /// A bell that rings when the run is to end.
    fn cancel_bell(&self) -> PyResult<Bell> {
        let _inside = Inside::or_raise()?;
        let mut slot = self.state.bell.lock().unwrap_or_else(PoisonError::into_inner);
        let bell = match &*slot {
            Some(bell) => bell.clone(),
            None => slot.insert(Arc::new(RawBell::open()?)).clone(),
        };
        // Cancelled before the bell was there: nobody else rings it.
        if self.state.is_cancelled() {
            bell.ring();
        }
        Ok(Bell { bell })
    }

    /// Sleeps on the scheduler's clock (ms), until the run is to end at the latest.
    fn sleep(&self, bridge: &Bridge, call: u64, ms: i64) -> PyResult<Call> {
        let _inside = Inside::or_raise()?;
        let context = self.state.context.clone();
        begin(&bridge.port, call, &*self.state.clock, async move {
            context.sleep(ms).await;
            Ok(None)
        })
    }

    /// The same for a thread: a bell that rings at the end of the sleep.
    fn sleep_bell(&self, ms: i64) -> PyResult<Bell> {
        let _inside = Inside::or_raise()?;
        let bell = Arc::new(RawBell::open()?);
        let (context, ringing) = (self.state.context.clone(), bell.clone());
        runtime(&*self.state.clock)?.spawn(async move {
            context.sleep(ms).await;
            ringing.ring();
        });
        Ok(Bell { bell })
    }
}
