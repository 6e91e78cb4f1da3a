//! Bug reports of the field about clocks that disagree, processes that stand still and stores that
//! are away: each name begins with the number of its case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;

use crate::backend::contract::{Backend, ClaimInput, JobLimits, RunRecord, StoredResult};
use crate::backends::memory::MemoryBackend;
use crate::error::{Code, Result};
use crate::events::Trigger;
use crate::lease::model::Status;
use crate::scheduler::tests::cases::{at, cron};
use crate::scheduler::tests::every;
use crate::scheduler::tests::processes::{Processes, cut_off};
use crate::scheduler::{
    BackendSource, HandlerEnd, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    SharedBackend,
};
use crate::testing::ManualClock;
use crate::testing::chaos::Faults;

const MINUTE: i64 = 60_000;

#[tokio::test(start_paused = true)]
async fn r02_clocks_three_minutes_apart_run_each_slot_once() {
    let fleet = Processes::at(at(12, 0, 1));
    let (true_time, ahead) = (fleet.process("A", 0), fleet.process("B", 3 * MINUTE));
    for process in [&true_time, &ahead] {
        fleet.job(process, "tick", every("2m"), &json!({ "jitterMs": 0 }), 0);
        fleet.start(process).await;
    }
    fleet.advance(10 * MINUTE + 1_000).await;
    let expected: Vec<i64> = (1..=5).map(|n| at(12, 2 * n, 0)).collect();
    assert_eq!(fleet.slots(), expected);
    assert!(!fleet.told(&ahead, "skew").is_empty(), "the clock that is ahead is told of");
    assert!(fleet.told(&true_time, "skew").is_empty());
}

#[tokio::test(start_paused = true)]
async fn r03_a_clock_an_hour_ahead_takes_no_slot_before_its_time_and_moves_nobody_elses() {
    let fleet = Processes::at(at(9, 59, 30));
    let (behind, ahead) = (fleet.process("A", -10_000), fleet.process("B", 60 * MINUTE));
    for process in [&behind, &ahead] {
        let options = json!({ "jitterMs": 0, "maxEarlyMs": 2_000 });
        fleet.job(process, "tick", cron("* * * * *"), &options, 0);
        fleet.start(process).await;
    }
    fleet.advance(10 * MINUTE).await;
    let expected: Vec<i64> = (0..10).map(|minute| at(10, minute, 0)).collect();
    assert_eq!(fleet.slots(), expected);
    for ran in fleet.runs() {
        assert!(ran.at >= ran.slot - 2_000, "no more than maxEarlyMs before its time: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r05_a_process_that_wakes_after_the_record_was_trimmed_runs_nothing_again() {
    let fleet = Processes::at(at(10, 30, 0));
    let (awake, asleep) = (fleet.process("A", 0), fleet.process("B", 0));
    for process in [&awake, &asleep] {
        let options = json!({ "jitterMs": 0, "historySize": 1, "maxLateMs": "1h" });
        fleet.job(process, "hourly", cron("0 * * * *"), &options, 0);
        fleet.start(process).await;
    }
    fleet.advance(29 * MINUTE + 58_000).await;
    asleep.gate.shut();
    fleet.advance(25 * 60 * MINUTE + 2_000).await;
    let kept: Vec<i64> = fleet.records("hourly").await.iter().map(|run| run.slot).collect();
    assert!(!kept.contains(&at(11, 0, 0)), "its record is trimmed: {kept:?}");
    asleep.gate.open();
    fleet.advance(30 * MINUTE).await;
    let runs = fleet.runs();
    let of_eleven: Vec<_> = runs.iter().filter(|ran| ran.slot == at(11, 0, 0)).collect();
    assert_eq!(of_eleven.len(), 1, "{of_eleven:?}");
    assert_eq!(of_eleven[0].by, "A");
    let mut once = fleet.slots();
    once.dedup();
    assert_eq!(once, fleet.slots(), "no slot twice");
    assert!(fleet.told(&asleep, "missed").is_empty(), "the other one ran them all");
}

#[tokio::test(start_paused = true)]
async fn l02_a_holder_that_wakes_after_it_was_taken_over_is_cancelled_and_writes_nothing() {
    let fleet = Processes::at(at(9, 59, 59));
    let (first, second) = (fleet.process("A", 0), fleet.process("B", 0));
    for process in [&first, &second] {
        let options = json!({ "jitterMs": 0, "leaseMs": 20_000 });
        fleet.job(process, "long", cron("0 * * * *"), &options, 40_000);
    }
    fleet.start(&first).await;
    fleet.advance(1_100).await;
    fleet.start(&second).await;
    first.gate.shut();
    fleet.advance(24_000).await;
    first.gate.open();
    let woken = at(10, 0, 25) + 102;
    fleet.advance(60_000).await;
    let runs = fleet.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    let [zombie, heir] = [&runs[0], &runs[1]];
    assert_eq!((zombie.by.as_str(), heir.by.as_str()), ("A", "B"));
    assert_eq!([zombie.attempt, heir.attempt], [1, 2]);
    assert!(heir.fence > zombie.fence, "a store downstream can tell them apart: {runs:?}");
    let (cancelled_at, reason) = zombie.cancelled.expect("told to end");
    assert_eq!(reason, Some(Code::LeaseLost));
    assert!(cancelled_at <= woken + 1_000, "within a second: {}", cancelled_at - woken);
    assert_eq!(heir.cancelled, None);
    let records = fleet.records("long").await;
    assert_eq!(records.len(), 1, "one record per run: {records:?}");
    assert_eq!((records[0].by.as_str(), records[0].attempt), ("B", Some(2)));
    assert_eq!(records[0].status, Status::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn l03_a_store_that_is_away_for_one_heartbeat_costs_no_run() {
    let fleet = Processes::at(at(9, 59, 59));
    let process = fleet.process("A", 0);
    let options = json!({ "jitterMs": 0, "leaseMs": 30_000 });
    fleet.job(&process, "long", cron("0 * * * *"), &options, 90_000);
    fleet.job(&process, "other", cron("* * * * *"), &options, 0);
    fleet.start(&process).await;
    fleet.advance(5_000).await;
    process.network.set_faults(cut_off());
    fleet.advance(10_000).await;
    process.network.set_faults(Faults::default());
    fleet.advance(120_000).await;
    let long = fleet.records("long").await;
    assert_eq!((long[0].status, long[0].attempt), (Status::Succeeded, Some(1)), "{long:?}");
    let other = fleet.records("other").await;
    assert_eq!(other.len(), 3, "the other job went on: {other:?}");
    assert!(fleet.told(&process, "leaseLost").is_empty());
}

/// A quarter of the lease for the way there and back: longer than a call may take at first.
fn late_answers() -> Faults {
    Faults { least_ms: 1_500, short_ms: 1_500, ..Faults::default() }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_late_is_waited_for_and_no_run_is_taken_from_its_holder() {
    let fleet = Processes::at(at(9, 59, 50));
    let processes = [fleet.process("A", 0), fleet.process("B", 0)];
    for process in &processes {
        let options = json!({ "jitterMs": 0, "leaseMs": 12_000 });
        fleet.job(process, "long", cron("* * * * *"), &options, 50_000);
        process.network.set_faults(late_answers());
        fleet.start(process).await;
    }
    fleet.advance(10 * MINUTE).await;
    let records = fleet.records("long").await;
    assert_eq!(records.len(), 10, "{records:?}");
    assert!(records.iter().all(|run| run.attempt == Some(1)), "{records:?}");
    assert_eq!(fleet.runs().len(), 10, "each was started once");
    for process in &processes {
        assert!(fleet.told(process, "leaseLost").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn l03_a_renewal_that_is_refused_ends_that_run_alone() {
    let fleet = Processes::at(at(9, 59, 59));
    let process = fleet.process("A", 0);
    let options = json!({ "jitterMs": 0, "leaseMs": 30_000 });
    fleet.job(&process, "long", cron("0 * * * *"), &options, 90_000);
    fleet.job(&process, "other", cron("* * * * *"), &options, 30_000);
    fleet.start(&process).await;
    fleet.advance(5_000).await;
    let runs = fleet.store.runs().expect("leases");
    assert!(runs.cancel("long", at(10, 0, 0), false).await.unwrap());
    fleet.advance(3 * MINUTE).await;
    let [long, other] = [fleet.records("long").await, fleet.records("other").await];
    assert_eq!(long[0].status, Status::Cancelled);
    let told: Vec<_> = fleet.runs().into_iter().filter(|ran| ran.cancelled.is_some()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].job, "long");
    let succeeded = other.iter().filter(|run| run.status == Status::Succeeded).count();
    assert_eq!(succeeded, 3, "{other:?}");
}

/// The claim is stored, its answer never arrives, and the process is killed.
async fn killed_between_the_claim_and_the_handler(max_takeovers: i64) -> Processes {
    let fleet = Processes::at(at(9, 59, 59));
    let (killed, other) = (fleet.process("A", 0), fleet.process("B", 0));
    for process in [&killed, &other] {
        let options = json!({ "jitterMs": 0, "leaseMs": 10_000, "maxTakeovers": max_takeovers });
        fleet.job(process, "tick", cron("0 * * * *"), &options, 0);
    }
    fleet.start(&killed).await;
    killed.network.set_faults(Faults { lose_reply: 1_000, ..Faults::default() });
    fleet.advance(1_100).await;
    killed.scheduler.abort();
    assert!(fleet.runs().is_empty(), "no handler has been entered");
    let active = fleet.store.runs().expect("leases").active("tick").await.unwrap();
    assert_eq!(active.len(), 1, "the claim is stored");
    fleet.start(&other).await;
    fleet.advance(30_000).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn m03_a_claim_whose_process_died_before_its_handler_is_taken_over() {
    let fleet = killed_between_the_claim_and_the_handler(5).await;
    let runs = fleet.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((runs[0].trigger, runs[0].attempt), (Trigger::Takeover, 2));
    assert!(runs[0].at >= at(10, 0, 10), "not before the lease was over: {runs:?}");
    let records = fleet.records("tick").await;
    assert_eq!((records[0].status, records[0].attempt), (Status::Succeeded, Some(2)));
}

#[tokio::test(start_paused = true)]
async fn m03_where_nobody_may_take_over_it_is_lost_and_never_done() {
    let fleet = killed_between_the_claim_and_the_handler(0).await;
    assert!(fleet.runs().is_empty());
    assert_eq!(fleet.records("tick").await[0].status, Status::Lost);
}

#[tokio::test(start_paused = true)]
async fn o01_three_minutes_without_a_store_cost_no_restart_and_no_silence() {
    let fleet = Processes::at(at(10, 0, 30));
    let process = fleet.process("A", 0);
    let options = json!({ "jitterMs": 0, "maxLateMs": 10_000, "catchUp": "latest" });
    fleet.job(&process, "tick", cron("* * * * *"), &options, 0);
    fleet.start(&process).await;
    fleet.advance(MINUTE - 1).await;
    process.network.set_faults(cut_off());
    fleet.advance(3 * MINUTE).await;
    assert_eq!(fleet.slots(), [at(10, 1, 0)], "unknown is not a win");
    let down = fleet.told(&process, "storeDown");
    assert!(down[0] <= at(10, 3, 0), "told within one slot: {down:?}");
    process.network.set_faults(Faults::default());
    fleet.advance(MINUTE).await;
    assert_eq!(fleet.slots(), [at(10, 1, 0), at(10, 4, 0), at(10, 5, 0)]);
    let made_up = fleet.runs().into_iter().find(|ran| ran.slot == at(10, 4, 0)).unwrap();
    assert_eq!(made_up.trigger, Trigger::CatchUp);
    assert!(made_up.at <= at(10, 4, 40), "within ten seconds: {made_up:?}");
    assert_eq!(fleet.told(&process, "storeUp").len(), 1);
    assert_eq!(fleet.told(&process, "missed").len(), 1, "10:02 and 10:03, as one range");
}

/// A store without leases whose first claim panics.
struct PanicsOnce {
    inner: MemoryBackend,
    panicked: AtomicBool,
    claims: AtomicUsize,
}

#[async_trait]
impl Backend for PanicsOnce {
    fn name(&self) -> String {
        "panics once".to_owned()
    }

    fn has_own_clock(&self) -> bool {
        false
    }

    async fn init(&self) -> Result<()> {
        self.inner.init().await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.inner.prepare_job(limits).await
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        assert!(self.panicked.swap(true, Ordering::SeqCst), "as planned");
        Backend::claim(&self.inner, input).await
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        self.inner.record_manual_run(input).await
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        self.inner.save_result(job, result, history_size, history_ttl_ms).await
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        self.inner.history(job, limit).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

#[tokio::test]
async fn o04_a_claim_that_panics_once_is_told_of_and_asked_again_and_the_rhythm_goes_on() {
    let clock = ManualClock::new(at(10, 0, 0) + 500);
    let inner = MemoryBackend::new(Arc::new(clock.clone()));
    let store = Arc::new(PanicsOnce {
        inner,
        panicked: AtomicBool::default(),
        claims: AtomicUsize::new(0),
    });
    let options = SchedulerOptions {
        backend: Some(BackendSource::Object(SharedBackend::new(store.clone()))),
        clock: Some(Arc::new(clock.clone())),
        ..SchedulerOptions::default()
    };
    let scheduler = Scheduler::new(options).expect("a scheduler");
    let (ran, errors) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, told) = (ran.clone(), errors.clone());
    scheduler.subscribe(Arc::new(move |event| {
        told.fetch_add(usize::from(event.name() == "error"), Ordering::SeqCst);
    }));
    let handler = move |_context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { HandlerEnd::Returned(None) }
    };
    let job = JobDefinition {
        name: "tick".to_owned(),
        when: every("1s"),
        options: JobOptions { jitter_ms: Some(0), ..JobOptions::default() },
        handler: Arc::new(handler),
    };
    scheduler.add(job).expect("a job");
    scheduler.start(true).await.expect("a start");
    clock.advance(10_000).await;
    assert_eq!(ran.load(Ordering::SeqCst), 10, "the slot of the panic included");
    assert_eq!(errors.load(Ordering::SeqCst), 1, "told once");
    assert_eq!(store.claims.load(Ordering::SeqCst), 11, "no hot loop");
    scheduler.stop(None).await.expect("a clean stop");
}
