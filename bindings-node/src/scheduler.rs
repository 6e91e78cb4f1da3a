//! The scheduler as `ts/scheduler.ts` drives it.

use std::sync::Arc;
use std::task::Poll;

use anarchon::clock::{Activity, Clock, Wake};
use anarchon::error::{Error, Result};
use anarchon::events::Event;
use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, RunNow, Scheduler,
    SchedulerOptions,
};
use async_trait::async_trait;
use futures_util::poll;
use napi_derive::napi;
use serde_json::json;
use tokio::runtime::Handle;

use crate::backend::NativeBackend;
use crate::error::{Fault, throw};
use crate::runtime::{Answer, Kind, Message, NativePort, Port, shared, stepped, thread_gone};
use crate::testing::{NativeClock, number};
use crate::value::{context, job_options, parse_object, settled, text, when, whole};

/// The options that `ts/scheduler.ts` takes itself.
const OTHERS: [&str; 4] = ["backend", "clock", "logger", "keepAlive"];

/// One scheduler.
#[napi]
pub struct NativeScheduler {
    core: Scheduler,
    id: u32,
    port: Arc<Port>,
    runtime: Handle,
    activity: Option<Activity>,
}

#[napi]
impl NativeScheduler {
    /// A scheduler that JavaScript knows as the target `id`. `options` is a JSON text without the
    /// backend and the clock.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        port: &NativePort,
        id: u32,
        options: String,
        url: Option<String>,
        backend: Option<&NativeBackend>,
        clock: Option<&NativeClock>,
    ) -> napi::Result<NativeScheduler, String> {
        let port = port.port.clone();
        let clock = clock.map(|clock| clock.clock.clone());
        let activity = clock.as_ref().and_then(Clock::activity).cloned();
        let source = match (backend, url) {
            (Some(backend), _) => Some(BackendSource::Object(backend.shared.clone())),
            (None, url) => url.map(BackendSource::Url),
        };
        let build = || {
            let given = parse_object("options", &options)?;
            let mut options = SchedulerOptions::from_json(&given, &OTHERS, Naming::Camel)?;
            options.backend = source;
            options.clock = clock.map(|clock| Arc::new(clock) as Arc<dyn Clock>);
            let core = Scheduler::new(options)?;
            core.subscribe(event_listener(port.clone(), id, activity.clone()));
            Ok(core)
        };
        let core = build().map_err(throw)?;
        let runtime = if activity.is_some() { stepped() } else { shared() };
        Ok(NativeScheduler { core, id, port, runtime, activity })
    }

    /// What a job would ask of the store, as JSON text; refuses what cannot be added.
    #[napi(catch_unwind)]
    pub fn check(
        &self,
        name: String,
        kind: String,
        schedule: String,
        options: String,
    ) -> napi::Result<String, String> {
        let check = || self.core.check(&self.definition(0, name, &kind, &schedule, &options)?);
        check().map(|limits| text(&limits)).map_err(throw)
    }

    /// Adds a job, whose function JavaScript knows under the number `handler`; answers warnings.
    #[napi(catch_unwind)]
    pub fn add(
        &self,
        handler: u32,
        name: String,
        kind: String,
        schedule: String,
        options: String,
    ) -> napi::Result<Vec<String>, String> {
        let _runtime = self.runtime.enter();
        let add = || self.core.add(self.definition(handler, name, &kind, &schedule, &options)?);
        add().map_err(throw)
    }

    fn definition(
        &self,
        id: u32,
        name: String,
        kind: &str,
        schedule: &str,
        options: &str,
    ) -> Result<JobDefinition> {
        let handler = JsHandler {
            id,
            port: self.port.clone(),
            scheduler: self.id,
            activity: self.activity.clone(),
        };
        let (when, options) = (when(kind, schedule)?, job_options(options)?);
        Ok(JobDefinition { name, when, options, handler: Arc::new(handler) })
    }

    /// Removes a job.
    #[napi(catch_unwind)]
    pub fn remove(&self, name: String) -> napi::Result<(), String> {
        let _runtime = self.runtime.enter();
        self.core.remove(&name).map_err(throw)
    }

    /// Starts.
    #[napi(catch_unwind)]
    pub fn start(&self, ask: u32, wait: bool) {
        self.port.adopt(self.id, self.core.clone());
        let (core, port, id) = (self.core.clone(), self.port.clone(), self.id);
        self.ask(ask, async move {
            let started = core.start(wait).await;
            if started.is_err() && !core.running() {
                port.disown(id);
            }
            started.map(|()| None)
        });
    }

    /// Stops.
    #[napi(catch_unwind)]
    pub fn stop(&self, ask: u32, grace_ms: Option<f64>) -> napi::Result<(), String> {
        let grace_ms = grace_ms.map(|ms| whole("graceMs", ms, 0)).transpose().map_err(throw)?;
        let (core, port, id) = (self.core.clone(), self.port.clone(), self.id);
        self.ask(ask, async move {
            let report = core.stop(grace_ms).await;
            if !core.running() {
                port.disown(id);
            }
            settled(report)
        });
        Ok(())
    }

    /// Waits until the store knows every job.
    #[napi(catch_unwind)]
    pub fn ready(&self, ask: u32) {
        let core = self.core.clone();
        self.ask(ask, async move { core.ready().await.map(|()| None) });
    }

    /// Runs a job here and now; `NativePort.giveUp(ask)` cancels the run.
    #[napi(catch_unwind)]
    pub fn run_now(
        &self,
        ask: u32,
        name: String,
        slot: Option<f64>,
        force: bool,
        wait: bool,
    ) -> napi::Result<(), String> {
        let slot = slot.map(|slot| whole("slot", slot, 1)).transpose().map_err(throw)?;
        let cancel = Some(self.port.cancellable(ask));
        let core = self.core.clone();
        self.ask(ask, async move {
            settled(core.run_now(&name, RunNow { slot, force, no_wait: !wait, cancel }).await)
        });
        Ok(())
    }

    /// The latest runs.
    #[napi(catch_unwind)]
    pub fn history(
        &self,
        ask: u32,
        name: String,
        limit: f64,
        missed: bool,
    ) -> napi::Result<(), String> {
        let limit = whole("limit", limit, 1).map_err(throw)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let core = self.core.clone();
        self.ask(ask, async move { settled(core.history(&name, limit, missed).await) });
        Ok(())
    }

    /// The unfinished runs.
    #[napi(catch_unwind)]
    pub fn active(&self, ask: u32, name: String) {
        let core = self.core.clone();
        self.ask(ask, async move { settled(core.active(&name).await) });
    }

    /// Why a slot did or did not run.
    #[napi(catch_unwind)]
    pub fn explain(&self, ask: u32, name: String, slot: f64) -> napi::Result<(), String> {
        let slot = whole("slot", slot, 1).map_err(throw)?;
        let core = self.core.clone();
        self.ask(ask, async move { settled(core.explain(&name, slot).await) });
        Ok(())
    }

    /// Pauses a job on the whole fleet.
    #[napi(catch_unwind)]
    pub fn pause(&self, ask: u32, name: String, reason: Option<String>) {
        let core = self.core.clone();
        self.ask(ask, async move { core.pause(&name, reason).await.map(|()| None) });
    }

    /// Resumes a job on the whole fleet.
    #[napi(catch_unwind)]
    pub fn resume(&self, ask: u32, name: String) {
        let core = self.core.clone();
        self.ask(ask, async move { core.resume(&name).await.map(|()| None) });
    }

    /// Cancels unfinished runs.
    #[napi(catch_unwind)]
    pub fn cancel(&self, ask: u32, name: String, slot: Option<f64>) -> napi::Result<(), String> {
        let slot = slot.map(|slot| whole("slot", slot, 1)).transpose().map_err(throw)?;
        let core = self.core.clone();
        self.ask(ask, async move { settled(core.cancel(&name, slot).await) });
        Ok(())
    }

    /// Drops a job's records and definition from the store.
    #[napi(catch_unwind)]
    pub fn forget(&self, ask: u32, name: String) {
        let core = self.core.clone();
        self.ask(ask, async move { core.forget(&name).await.map(|()| None) });
    }

    /// The next slots of a job.
    #[napi(catch_unwind)]
    pub fn next_slots(
        &self,
        name: String,
        count: f64,
        from: Option<f64>,
    ) -> napi::Result<Vec<f64>, String> {
        let slots = || {
            let count = usize::try_from(whole("count", count, 0)?).unwrap_or(usize::MAX);
            let from = from.map(|from| whole("from", from, i64::MIN)).transpose()?;
            self.core.next_slots(&name, count, from)
        };
        slots().map(|slots| slots.into_iter().map(number).collect()).map_err(throw)
    }

    /// The registered jobs, as JSON text.
    #[napi(catch_unwind)]
    pub fn jobs(&self) -> String {
        text(&self.core.jobs())
    }

    /// Whether it has been started and not stopped.
    #[napi(catch_unwind)]
    pub fn running(&self) -> bool {
        self.core.running()
    }

    /// The instance id, once there is one.
    #[napi(catch_unwind)]
    pub fn instance_id(&self) -> Option<String> {
        self.core.instance_id()
    }

    /// The backend.
    #[napi(catch_unwind)]
    pub fn backend(&self) -> NativeBackend {
        NativeBackend::of_scheduler(&self.core)
    }

    /// What the user should be warned of, if anything.
    #[napi(catch_unwind)]
    pub fn notice(&self) -> Option<String> {
        self.core.notice().map(str::to_owned)
    }

    /// One line for the log at a start.
    #[napi(catch_unwind)]
    pub fn summary(&self) -> String {
        self.core.summary()
    }

    /// Settles `ask` after `ms` on the scheduler's clock, or when the promise is given up.
    #[napi(catch_unwind)]
    pub fn sleep(&self, ask: u32, ms: f64) -> napi::Result<(), String> {
        let ms = whole("ms", ms, 0).map_err(throw)?;
        let (clock, port) = (self.core.clock(), self.port.clone());
        let given_up = self.port.cancellable(ask);
        // A manual clock stands still until the sleeper sleeps, and again until what it does when
        // it wakes has been posted.
        let mut awake = self.activity.as_ref().map(Activity::begin);
        self.runtime.spawn(async move {
            let until = clock.mono_ms().saturating_add(ms);
            while clock.mono_ms() < until && !given_up.is_cancelled() {
                let mut sleeping = clock.sleep(Wake::mono(until));
                if let Poll::Ready(woken) = poll!(&mut sleeping) {
                    awake = woken.or(awake);
                    continue;
                }
                drop(awake.take());
                tokio::select! {
                    biased;
                    () = given_up.cancelled() => {}
                    woken = sleeping => awake = woken,
                }
            }
            port.settle(ask, None, None, awake);
        });
        Ok(())
    }

    fn ask<F>(&self, ask: u32, work: F)
    where
        F: Future<Output = Result<Option<String>>> + Send + 'static,
    {
        self.port.ask(ask, &self.runtime, self.activity.clone(), work);
    }
}

/// Posts every event as it happens; called from the scheduler's own tasks.
fn event_listener(
    port: Arc<Port>,
    scheduler: u32,
    activity: Option<Activity>,
) -> Arc<dyn Fn(&Event) + Send + Sync> {
    Arc::new(move |event| {
        port.post(Message {
            kind: Kind::Event,
            id: 0,
            target: scheduler,
            text: Some(json!([event.name(), event]).to_string()),
            fault: event.error().cloned().map(Fault::from),
            busy: activity.as_ref().map(Activity::begin),
        });
    })
}

/// A job's function on the JavaScript thread, known there under a number; 0 for none.
struct JsHandler {
    id: u32,
    port: Arc<Port>,
    scheduler: u32,
    activity: Option<Activity>,
}

#[async_trait]
impl Handler for JsHandler {
    async fn run(&self, run: Arc<JobContext>) -> HandlerEnd {
        let (expected, mut answer) = self.port.expect_answer(Some(run.clone()));
        let message = |kind, text, fault| Message {
            kind,
            id: expected.id,
            target: self.scheduler,
            text,
            fault,
            busy: self.activity.as_ref().map(Activity::begin),
        };
        if !self.port.post(message(
            Kind::Run,
            Some(format!("[{},{}]", self.id, context(&run))),
            None,
        )) {
            return HandlerEnd::Threw(thread_gone());
        }
        tokio::select! {
            biased;
            ended = &mut answer => return end_of(ended),
            () = run.cancellation.cancelled() => {}
        }
        let reason = run.cancellation.reason().map(Fault::from);
        self.port.post(message(Kind::Cancel, None, reason));
        end_of(answer.await)
    }
}

impl Drop for JsHandler {
    fn drop(&mut self) {
        if self.id != 0 {
            self.port.post(Message {
                kind: Kind::Release,
                id: self.id,
                target: self.scheduler,
                text: None,
                fault: None,
                busy: None,
            });
        }
    }
}

fn end_of(
    ended: std::result::Result<Answer, tokio::sync::oneshot::error::RecvError>,
) -> HandlerEnd {
    match ended {
        Ok(Ok(output)) => HandlerEnd::Returned(output),
        Ok(Err(thrown)) => HandlerEnd::Threw(Error::Host(thrown)),
        Err(_) => HandlerEnd::Threw(thread_gone()),
    }
}
