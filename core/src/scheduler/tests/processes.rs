//! Schedulers as processes: each with a clock of its own, a network of its own, and a way to stand
//! still.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::backend::contract::{Backend, RunRecord};
use crate::backends::memory::MemoryBackend;
use crate::clock::{Clock, sleep_for};
use crate::error::Code;
use crate::events::{Event, Trigger};
use crate::host::names::Naming;
use crate::scheduler::{
    BackendSource, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    SharedBackend, When,
};
use crate::testing::ManualClock;
use crate::testing::chaos::{Chaos, Faults};
use crate::testing::record::Recorder;
use crate::testing::skewed_clock::{Gate, SkewedClock};

/// One run of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) job: String,
    pub(super) slot: i64,
    pub(super) by: String,
    pub(super) trigger: Trigger,
    pub(super) attempt: i64,
    pub(super) fence: i64,
    /// When it was entered, on the store's clock.
    pub(super) at: i64,
    /// When it was told to end, on the store's clock, and why.
    pub(super) cancelled: Option<(i64, Option<Code>)>,
}

/// One process.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) scheduler: Scheduler,
    pub(super) network: Arc<Chaos>,
    pub(super) gate: Gate,
    clock: SkewedClock,
}

/// Processes around one store, whose clock is the true one.
pub(super) struct Processes {
    pub(super) clock: ManualClock,
    pub(super) store: MemoryBackend,
    pub(super) ran: Arc<Mutex<Vec<Ran>>>,
    told: Arc<Mutex<Vec<(String, i64, Event)>>>,
}

impl Processes {
    pub(super) fn at(start: i64) -> Processes {
        let clock = ManualClock::new(start);
        let store = MemoryBackend::new(Arc::new(clock.clone()));
        Processes { clock, store, ran: Arc::default(), told: Arc::default() }
    }

    /// A process whose clock is off by so much.
    pub(super) fn process(&self, name: &str, skew_ms: i64) -> Process {
        let base: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let gate = Gate::default();
        let clock = SkewedClock::new(base.clone(), skew_ms, gate.clone());
        let store: Arc<dyn Backend> = Arc::new(self.store.clone());
        let probed = self.store.clone();
        let recorder = Recorder::new(base.clone(), move |job| probed.state(job));
        let network = Chaos::new(name, store, base, gate.clone(), recorder, 1);
        let network = Arc::new(network);
        let options = SchedulerOptions {
            backend: Some(BackendSource::Object(SharedBackend::new(network.clone()))),
            instance_id: Some(name.to_owned()),
            clock: Some(Arc::new(clock.clone())),
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::new(options).expect("a scheduler");
        let (told, teller, base) = (self.told.clone(), name.to_owned(), self.clock.clone());
        scheduler.subscribe(Arc::new(move |event: &Event| {
            told.lock().unwrap().push((teller.clone(), base.wall_ms(), event.clone()));
        }));
        Process { name: name.to_owned(), scheduler, network, gate, clock }
    }

    /// A job whose handler takes so long, or until it is told to end.
    pub(super) fn job(&self, on: &Process, name: &str, when: When, options: &Value, takes: i64) {
        let (ran, base, clock) = (self.ran.clone(), self.clock.clone(), on.clock.clone());
        let by = on.name.clone();
        let handler = move |context: Arc<JobContext>| {
            let (ran, base, clock, by) = (ran.clone(), base.clone(), clock.clone(), by.clone());
            async move {
                context.entered();
                let own = {
                    let mut ran = ran.lock().unwrap();
                    ran.push(Ran {
                        job: context.job.clone(),
                        slot: context.slot,
                        by,
                        trigger: context.trigger,
                        attempt: context.attempt,
                        fence: context.fence,
                        at: base.wall_ms(),
                        cancelled: None,
                    });
                    ran.len() - 1
                };
                tokio::select! {
                    biased;
                    () = context.cancellation.cancelled() => {}
                    () = sleep_for(&clock, takes) => {}
                }
                match context.cancellation.reason() {
                    Some(reason) => {
                        let cancelled = Some((base.wall_ms(), reason.code()));
                        ran.lock().unwrap()[own].cancelled = cancelled;
                        HandlerEnd::Threw(reason)
                    }
                    None => HandlerEnd::Returned(Some("1".to_owned())),
                }
            }
        };
        let options = options.as_object().expect("options as an object");
        let job = JobDefinition {
            name: name.to_owned(),
            when,
            options: JobOptions::from_json(options, Naming::Camel).expect("options"),
            handler: Arc::new(handler),
        };
        on.scheduler.add(job).expect("a job");
    }

    /// Starts a process without waiting for the store, and lets it look around.
    pub(super) async fn start(&self, process: &Process) {
        process.scheduler.start(false).await.expect("a start");
        self.advance(1).await;
    }

    /// Moves the true clock, from one sleeper's time to the next.
    pub(super) async fn advance(&self, ms: i64) {
        let target = self.clock.mono_ms() + ms;
        loop {
            settle().await;
            if !self.clock.step(target) {
                settle().await;
                return;
            }
        }
    }

    pub(super) fn runs(&self) -> Vec<Ran> {
        self.ran.lock().unwrap().clone()
    }

    /// The slots that were run, each as often as it was.
    pub(super) fn slots(&self) -> Vec<i64> {
        let mut slots: Vec<i64> = self.runs().iter().map(|ran| ran.slot).collect();
        slots.sort_unstable();
        slots
    }

    /// When a process told this (ms, the store's clock).
    pub(super) fn told(&self, by: &Process, event: &str) -> Vec<i64> {
        let told = self.told.lock().unwrap();
        let of_it = told.iter().filter(|(who, _, what)| *who == by.name && what.name() == event);
        of_it.map(|(_, at, _)| *at).collect()
    }

    pub(super) async fn records(&self, job: &str) -> Vec<RunRecord> {
        self.store.history(job, 1_000).await.expect("a history")
    }
}

/// Nothing gets through.
pub(super) fn cut_off() -> Faults {
    Faults { cut_off: true, ..Faults::default() }
}

/// Lets every task go on until all of them wait: tokio's own paused clock, which nothing else here
/// looks at, moves only then.
#[expect(clippy::disallowed_methods, reason = "not to wait for time, but for the tasks")]
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
