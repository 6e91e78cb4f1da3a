//! A fleet of real schedulers on a virtual clock, behind a bad network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anarchon::Error;
use anarchon::backend::contract::Backend;
use anarchon::backends::memory::MemoryBackend;
use anarchon::clock::{Clock, sleep_for};
use anarchon::error::HostError;
use anarchon::events::Event;
use anarchon::lease::model::RunKey;
use anarchon::random::Random;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, RunNow, Scheduler,
    SchedulerOptions, SharedBackend, When,
};
use anarchon::testing::ManualClock;
use anarchon::testing::chaos::{Chaos, Faults};
use anarchon::testing::checker::{Expected, Violation, check};
use anarchon::testing::record::{Observed, Recorder, What, Work};
use anarchon::testing::skewed_clock::{Gate, SkewedClock};

use crate::plan::{Blow, Dice, Focus, InstancePlan, JobPlan, Plan};

/// How long the fleet goes on after the last blow, with a network that loses nothing (ms).
const HEALED_MS: i64 = 75_000;
/// By then every slot of the bad times must be accounted for (ms before the end).
const HEALTHY: Faults = Faults {
    lose_request: 0,
    lose_reply: 0,
    duplicate: 0,
    delay: 0,
    least_ms: 0,
    short_ms: 5,
    long_ms: 5,
    cut_off: false,
    lost_slots: 0,
};

/// One process.
struct Process {
    name: String,
    scheduler: Scheduler,
    chaos: Arc<Chaos>,
    clock: SkewedClock,
    gate: Gate,
    /// Handlers at work.
    busy: Arc<AtomicUsize>,
}

struct World {
    plan: Plan,
    base: ManualClock,
    store: MemoryBackend,
    recorder: Recorder,
    /// The process of each instance, while it lives.
    processes: Vec<Option<Process>>,
    faults: Vec<Faults>,
    /// The definitions that each instance starts with.
    every: Vec<Vec<i64>>,
    incarnations: usize,
}

/// What a run of a fleet came to.
pub struct Outcome {
    pub seen: Vec<Observed>,
    pub violation: Option<Violation>,
}

/// Runs the fleet of a seed from its beginning to its end, the same way every time.
pub fn simulate(seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(Plan::draw(seed));
        world.run().await
    })
}

/// Lets every task go on until all of them wait: tokio's own paused clock, which nothing else here
/// looks at, moves only then.
#[expect(clippy::disallowed_methods, reason = "not to wait for time, but for the tasks")]
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

impl World {
    fn new(plan: Plan) -> World {
        let base = ManualClock::default();
        let store = MemoryBackend::new(Arc::new(base.clone()));
        let probed = store.clone();
        let recorder = Recorder::new(Arc::new(base.clone()), move |job| probed.state(job));
        let every = plan.instances.iter();
        let every = every.map(|one| one.jobs.iter().map(|job| job.every_ms).collect()).collect();
        World {
            processes: plan.instances.iter().map(|_| None).collect(),
            faults: vec![HEALTHY; plan.instances.len()],
            every,
            incarnations: 0,
            plan,
            base,
            store,
            recorder,
        }
    }

    async fn run(&mut self) -> Outcome {
        for instance in 0..self.processes.len() {
            self.start(instance).await;
            self.advance(700).await;
        }
        for (wait, blow) in self.plan.blows.clone() {
            self.advance(wait).await;
            self.strike(blow).await;
        }
        self.advance(3_000).await;
        let until_ms = self.heal().await;
        let mut expected = BTreeMap::new();
        for (index, skip) in self.plan.skip.iter().enumerate() {
            let job = &self.plan.instances[0].jobs[index];
            let every_ms = self.plan.steady.then_some(job.every_ms);
            let in_order = self.plan.focus == Focus::Trimming;
            let job_expected = Expected { skip: *skip, every_ms, in_order, until_ms };
            expected.insert(job.name.clone(), job_expected);
        }
        let seen = self.recorder.all();
        let violation = check(&seen, &expected).err();
        Outcome { seen, violation }
    }

    /// The bad times are over: everybody is up, and every message arrives.
    async fn heal(&mut self) -> i64 {
        for instance in 0..self.processes.len() {
            self.strike(Blow::Resume(instance)).await;
            self.strike(Blow::Network(instance, HEALTHY)).await;
            // Where the others must hear by themselves of what the dead left, the dead stay dead.
            let alone = self.plan.focus == Focus::Disagreement && self.is_anybody_up();
            if !alone {
                self.strike(Blow::Restart(instance)).await;
            }
            // Only there jobs are paused, and a resume makes everybody look.
            let jobs = if self.plan.focus == Focus::Mixed { self.plan.skip.len() } else { 0 };
            for job in 0..jobs {
                self.strike(Blow::ResumeJob(instance, job)).await;
            }
        }
        self.recorder.note("", What::Healed);
        let healed_at = self.base.wall_ms();
        self.advance(HEALED_MS).await;
        healed_at
    }

    fn is_anybody_up(&self) -> bool {
        self.processes.iter().flatten().any(|process| process.scheduler.running())
    }

    /// Moves the clock, from one sleeper's time to the next.
    async fn advance(&self, ms: i64) {
        let target = self.base.mono_ms() + ms;
        loop {
            settle().await;
            if !self.base.step(target) {
                settle().await;
                return;
            }
        }
    }

    async fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::Restart(instance) => self.restart(instance).await,
            Blow::Network(instance, faults) => self.network(instance, faults),
            Blow::StepBack(ms) => {
                self.recorder.note("", What::Stepped(-ms));
                self.base.step_wall(-ms);
            }
            Blow::Redefine(instance, job, every) => self.redefine(instance, job, every),
            Blow::CrashBusy => {
                let at_work = |process: &Process| process.busy.load(Ordering::SeqCst) > 0;
                let busy = self.processes.iter().position(|p| p.as_ref().is_some_and(at_work));
                if let Some(instance) = busy {
                    self.crash(instance);
                }
            }
            Blow::RestartAll => {
                for instance in 0..self.processes.len() {
                    self.restart(instance).await;
                }
            }
            Blow::Crash(instance) => self.crash(instance),
            Blow::Pause(instance)
            | Blow::Resume(instance)
            | Blow::Stop(instance, _)
            | Blow::Skew(instance, _)
            | Blow::RunNow(instance, _)
            | Blow::PauseJob(instance, _)
            | Blow::ResumeJob(instance, _) => {
                if let Some(process) = &self.processes[instance] {
                    self.strike_process(process, blow);
                }
            }
        }
        settle().await;
    }

    async fn restart(&mut self, instance: usize) {
        let Some(process) = &self.processes[instance] else {
            self.start(instance).await;
            return;
        };
        if !process.scheduler.running() {
            // The same process starts its scheduler once more.
            self.recorder.note(&process.name, What::Started);
            let scheduler = process.scheduler.clone();
            tokio::spawn(async move { scheduler.start(false).await });
        }
    }

    fn crash(&mut self, instance: usize) {
        if let Some(process) = self.processes[instance].take() {
            self.recorder.note(&process.name, What::Crashed);
            // What waits for a stopped process must not wait for ever.
            process.gate.open();
            process.scheduler.abort();
        }
    }

    fn strike_process(&self, process: &Process, blow: Blow) {
        let scheduler = process.scheduler.clone();
        let name = |job: usize| format!("job{job}");
        match blow {
            Blow::Pause(_) if !process.gate.is_shut() => {
                self.recorder.note(&process.name, What::Paused);
                process.gate.shut();
            }
            Blow::Resume(_) if process.gate.is_shut() => {
                self.recorder.note(&process.name, What::Resumed);
                process.gate.open();
            }
            // A process that is stopped does nothing.
            _ if process.gate.is_shut() => {}
            Blow::Stop(_, grace) => {
                self.recorder.note(&process.name, What::Stopping);
                tokio::spawn(async move { scheduler.stop(Some(grace)).await });
            }
            Blow::Skew(_, ms) => process.clock.step(ms),
            Blow::RunNow(_, job) => {
                let name = name(job);
                let how = RunNow { no_wait: true, ..RunNow::default() };
                tokio::spawn(async move { scheduler.run_now(&name, how).await });
            }
            Blow::PauseJob(_, job) => {
                let name = name(job);
                tokio::spawn(async move { scheduler.pause(&name, None).await });
            }
            Blow::ResumeJob(_, job) => {
                let name = name(job);
                tokio::spawn(async move { scheduler.resume(&name).await });
            }
            _ => {}
        }
    }

    fn network(&mut self, instance: usize, faults: Faults) {
        self.faults[instance] = faults;
        if let Some(process) = &self.processes[instance] {
            process.chaos.set_faults(faults);
            self.recorder.note(&process.name, What::Lossy(is_lossy(&faults)));
        }
    }

    /// The instance goes by another definition from now on, without a restart.
    fn redefine(&mut self, instance: usize, job: usize, every: i64) {
        self.every[instance][job] = every;
        let Some(process) = &self.processes[instance] else { return };
        if process.gate.is_shut() {
            return;
        }
        let plan = &self.plan.instances[instance].jobs[job];
        process.scheduler.remove(&plan.name).expect("the job was added");
        let added = process.scheduler.add(self.definition(process, plan, every));
        added.expect("a job");
    }

    async fn start(&mut self, instance: usize) {
        self.incarnations += 1;
        let name = format!("{}{}", ["A", "B", "C"][instance], self.incarnations);
        let seed = self.plan.seed * 1_000 + self.incarnations as u64;
        let plan = self.plan.instances[instance].clone();
        let process = self.process(&name, seed, &plan);
        process.chaos.set_faults(self.faults[instance]);
        for (job, every) in plan.jobs.iter().zip(&self.every[instance]) {
            let added = process.scheduler.add(self.definition(&process, job, *every));
            added.expect("a job");
        }
        self.recorder.note(&name, What::Started);
        self.recorder.note(&name, What::Lossy(is_lossy(&self.faults[instance])));
        process.scheduler.start(false).await.expect("a start that does not wait");
        self.processes[instance] = Some(process);
    }

    fn process(&self, name: &str, seed: u64, plan: &InstancePlan) -> Process {
        let base: Arc<dyn Clock> = Arc::new(self.base.clone());
        let gate = Gate::default();
        let clock = SkewedClock::new(base.clone(), plan.skew_ms, gate.clone());
        let store: Arc<dyn Backend> = Arc::new(self.store.clone());
        let recorder = self.recorder.clone();
        let chaos = Chaos::new(name, store, base, gate.clone(), recorder.clone(), seed);
        let chaos = Arc::new(chaos);
        let options = SchedulerOptions {
            backend: Some(BackendSource::Object(SharedBackend::new(chaos.clone()))),
            instance_id: Some(name.to_owned()),
            max_concurrent_runs: Some(plan.places),
            clock: Some(Arc::new(clock.clone())),
            random: Some(Arc::new(Random::seeded(seed))),
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::new(options).expect("a scheduler");
        let teller = name.to_owned();
        scheduler.subscribe(Arc::new(move |event: &Event| {
            recorder.note(&teller, What::Event(Box::new(event.clone())));
        }));
        Process { name: name.to_owned(), scheduler, chaos, clock, gate, busy: Arc::default() }
    }

    fn definition(&self, process: &Process, plan: &JobPlan, every: i64) -> JobDefinition {
        let handler = Worker {
            instance: process.name.clone(),
            plan: plan.clone(),
            seed: self.plan.seed,
            clock: process.clock.clone(),
            busy: process.busy.clone(),
            recorder: self.recorder.clone(),
        };
        JobDefinition {
            name: plan.name.clone(),
            when: When::Every(serde_json::json!(format!("{every}ms"))),
            options: plan.options.clone(),
            handler: Arc::new(handler),
        }
    }
}

/// Whether a message of the instance may not arrive, or not in good time.
fn is_lossy(faults: &Faults) -> bool {
    faults.lose_request > 0
        || faults.lose_reply > 0
        || faults.delay > 0
        || faults.cut_off
        || faults.lost_slots > 0
}

/// A handler that takes its time, and may be stubborn or fail.
struct Worker {
    instance: String,
    plan: JobPlan,
    seed: u64,
    clock: SkewedClock,
    busy: Arc<AtomicUsize>,
    recorder: Recorder,
}

#[async_trait::async_trait]
impl Handler for Worker {
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        let work = Work {
            job: context.job.clone(),
            key: RunKey { slot: context.slot, manual: context.manual() },
            fence: context.fence,
            attempt: context.attempt,
            token: context.token.clone(),
        };
        self.recorder.note(&self.instance, What::HandlerStarted(work.clone()));
        self.busy.fetch_add(1, Ordering::SeqCst);
        context.entered();
        let slot = u64::try_from(context.slot).unwrap_or(0);
        let attempt = u64::try_from(context.attempt).unwrap_or(0);
        let mut dice = Dice::new(self.seed ^ slot.wrapping_mul(31) ^ attempt);
        let takes = dice.between(0, self.plan.takes_ms);
        let stubborn = dice.percent(self.plan.stubborn);
        let throws = dice.percent(self.plan.throws);
        let until = self.clock.mono_ms() + takes;
        tokio::select! {
            biased;
            () = context.cancellation.cancelled() => {
                self.recorder.note(&self.instance, What::HandlerCancelled(work.clone()));
                if stubborn {
                    let left = until - self.clock.mono_ms() + 1_500;
                    sleep_for(&self.clock, left).await;
                }
            }
            () = sleep_for(&self.clock, takes) => {}
        }
        self.busy.fetch_sub(1, Ordering::SeqCst);
        self.recorder.note(&self.instance, What::HandlerEnded(work));
        match context.cancellation.reason() {
            Some(reason) if !stubborn => HandlerEnd::Threw(reason),
            _ if throws => HandlerEnd::Threw(Error::Host(HostError {
                object: Arc::new(()),
                name: "Failure".to_owned(),
                message: "as planned".to_owned(),
                stack: None,
            })),
            _ => HandlerEnd::Returned(None),
        }
    }
}
