//! The scheduler on the memory store and a manual clock.

mod cases;
mod processes;
mod troubles;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::events::{Event, Trigger};
use crate::lease::model::Status;
use crate::scheduler::{
    HandlerEnd, HistoryEntry, JobContext, JobDefinition, JobOptions, RunNow, Scheduler,
    SchedulerOptions, When,
};
use crate::testing::ManualClock;
use crate::testing::manual_clock::START_MS;

/// Several schedulers on one clock and one store, and what they did.
pub(super) struct Fleet {
    pub(super) clock: ManualClock,
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) ran: Arc<Mutex<Vec<(i64, String, Trigger)>>>,
    pub(super) told: Arc<Mutex<Vec<(String, Event)>>>,
}

impl Fleet {
    pub(super) fn of(ids: &[&str]) -> Fleet {
        Fleet::with(ManualClock::new(START_MS + 500), ids)
    }

    pub(super) fn with(clock: ManualClock, ids: &[&str]) -> Fleet {
        let told: Arc<Mutex<Vec<(String, Event)>>> = Arc::default();
        let schedulers = ids.iter().map(|id| {
            let options = SchedulerOptions {
                clock: Some(Arc::new(clock.clone())),
                instance_id: Some((*id).to_owned()),
                ..SchedulerOptions::default()
            };
            let scheduler = Scheduler::new(options).expect("a scheduler");
            let (told, id) = (told.clone(), (*id).to_owned());
            scheduler.subscribe(Arc::new(move |event: &Event| {
                told.lock().unwrap().push((id.clone(), event.clone()));
            }));
            scheduler
        });
        let schedulers = schedulers.collect();
        Fleet { clock, schedulers, ran: Arc::default(), told }
    }

    pub(super) fn job(&self, name: &str, when: When, options: &Value) {
        for scheduler in &self.schedulers {
            self.job_on(scheduler, name, when.clone(), options, 0);
        }
    }

    pub(super) fn job_on(
        &self,
        on: &Scheduler,
        name: &str,
        when: When,
        options: &Value,
        takes: i64,
    ) {
        let ran = self.ran.clone();
        let handler = move |context: Arc<JobContext>| {
            let ran = ran.clone();
            async move {
                let line = (context.slot, context.instance_id.clone(), context.trigger);
                ran.lock().unwrap().push(line);
                context.sleep(takes).await;
                match context.cancellation.reason() {
                    Some(reason) => HandlerEnd::Threw(reason),
                    None => HandlerEnd::Returned(Some("1".to_owned())),
                }
            }
        };
        let options =
            JobOptions::from_json(options.as_object().unwrap(), crate::host::names::Naming::Camel);
        let job = JobDefinition {
            name: name.to_owned(),
            when,
            options: options.expect("options"),
            handler: Arc::new(handler),
        };
        on.add(job).expect("a job");
    }

    pub(super) async fn start(&self) {
        for scheduler in &self.schedulers {
            scheduler.start(true).await.expect("a start");
        }
    }

    pub(super) fn slots(&self) -> Vec<i64> {
        let mut slots: Vec<i64> = self.ran.lock().unwrap().iter().map(|(slot, ..)| *slot).collect();
        slots.sort_unstable();
        slots
    }

    pub(super) fn events(&self, name: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|(_, event)| event.name() == name).count()
    }
}

pub(super) fn every(interval: &str) -> When {
    When::Every(json!(interval))
}

#[tokio::test]
async fn three_replicas_run_each_slot_once() {
    let fleet = Fleet::of(&["A", "B", "C"]);
    fleet.job("tick", every("1s"), &json!({}));
    fleet.start().await;
    fleet.clock.advance(10_500).await;
    let start = START_MS;
    let expected: Vec<i64> = (1..=10).map(|n| start + n * 1_000).collect();
    assert_eq!(fleet.slots(), expected);
    let history = fleet.schedulers[0].history("tick", 20, false).await.unwrap();
    assert_eq!(history.len(), 10);
    for entry in history {
        let HistoryEntry::Run(record) = entry else { panic!("a run") };
        assert_eq!(record.status, Status::Succeeded);
    }
    assert_eq!(fleet.events("error"), 0);
    assert_eq!(fleet.events("missed"), 0);
}

#[tokio::test]
async fn a_run_whose_holder_is_gone_is_taken_over() {
    let fleet = Fleet::of(&["A", "B"]);
    for scheduler in &fleet.schedulers {
        fleet.job_on(scheduler, "long", every("1m"), &json!({ "leaseMs": 3000 }), 50_000);
    }
    fleet.schedulers[0].start(true).await.unwrap();
    fleet.clock.advance(62_000).await;
    fleet.schedulers[1].start(true).await.unwrap();
    fleet.schedulers[0].abort();
    fleet.clock.advance(6_000).await;
    let ran = fleet.ran.lock().unwrap().clone();
    assert_eq!(ran.len(), 2, "{ran:?}");
    assert_eq!(ran[1].1, "B");
    assert_eq!(ran[1].2, Trigger::Takeover);
}

#[tokio::test]
async fn a_stop_hands_over_at_once() {
    let fleet = Fleet::of(&["A", "B"]);
    for scheduler in &fleet.schedulers {
        fleet.job_on(scheduler, "long", every("1m"), &json!({ "jitterMs": 0 }), 50_000);
    }
    fleet.start().await;
    fleet.clock.advance(61_000).await;
    let holder = fleet.ran.lock().unwrap()[0].1.clone();
    let index = usize::from(holder == "B");
    let stopping = fleet.schedulers[index].clone();
    let stop = tokio::spawn(async move { stopping.stop(Some(0)).await });
    fleet.clock.settle().await;
    fleet.clock.advance(2_000).await;
    let report = stop.await.unwrap().unwrap();
    assert_eq!(report.released.len(), 1, "{report:?}");
    let ran = fleet.ran.lock().unwrap().clone();
    assert_eq!(ran.len(), 2, "{ran:?}");
    assert_ne!(ran[1].1, holder);
}

#[tokio::test]
async fn run_now_answers_the_record() {
    let fleet = Fleet::of(&["A"]);
    fleet.job("tick", every("1h"), &json!({}));
    fleet.start().await;
    let record = fleet.schedulers[0].run_now("tick", RunNow::default()).await.unwrap();
    assert!(record.manual);
    assert_eq!(record.status, Status::Succeeded);
    assert_eq!(record.output.as_deref(), Some("1"));
}

#[tokio::test]
async fn after_ten_hours_of_silence_only_the_last_slot_is_made_up_for() {
    let fleet = Fleet::of(&["A"]);
    fleet.job("tick", When::Cron("* * * * *".to_owned()), &json!({ "catchUp": "latest" }));
    fleet.start().await;
    fleet.clock.advance(30_000).await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(10 * 3_600_000).await;
    fleet.ran.lock().unwrap().clear();
    fleet.start().await;
    fleet.clock.advance(20_000).await;
    assert_eq!(fleet.slots().len(), 1, "{:?}", fleet.slots());
    assert_eq!(fleet.events("missed"), 1);
}

#[tokio::test]
async fn an_instant_that_passes_on_the_way_into_the_store_still_runs() {
    let fleet = Fleet::of(&["A", "B"]);
    let instant = START_MS + 500 - 3_000;
    fleet.job("once", When::At(json!(instant)), &json!({}));
    fleet.start().await;
    fleet.clock.advance(5_000).await;
    assert_eq!(fleet.slots(), [instant]);
}

#[tokio::test]
async fn an_instant_that_was_long_past_when_it_was_first_registered_is_refused() {
    let fleet = Fleet::of(&["A"]);
    fleet.job("once", When::At(json!(START_MS - 60_000)), &json!({}));
    let error = fleet.schedulers[0].start(true).await.expect_err("a refusal");
    assert_eq!(error.code(), Some(crate::error::Code::InvalidSchedule));
    assert!(fleet.slots().is_empty());
}
