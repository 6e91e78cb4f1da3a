//! Many jobs at once, and what an idle fleet asks of its store.

mod hours;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::backend::contract::Backend;
use anarchon::backend::shared::SharedBackend;
use anarchon::backends::memory::MemoryBackend;
use anarchon::backends::sqlite::{SqliteBackend, SqliteOptions};
use anarchon::clock::{Clock, SLICE_MS, SystemClock, sleep_for};
use anarchon::events::Event;
use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    When,
};
use anarchon::testing::ManualClock;
use anarchon::testing::manual_clock::START_MS;
use serde_json::{Value, json};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("anarchon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

/// Replicas on one store and one clock, and how often each job's handler ran.
struct Fleet {
    schedulers: Vec<Scheduler>,
    ran: Arc<Mutex<BTreeMap<(String, i64), usize>>>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Fleet {
    fn new(backend: Arc<dyn Backend>, clock: Arc<dyn Clock>, ids: &[&str]) -> Fleet {
        let shared = SharedBackend::new(backend);
        let complaints: Arc<Mutex<Vec<String>>> = Arc::default();
        let schedulers = ids.iter().map(|id| {
            let scheduler = Scheduler::new(SchedulerOptions {
                backend: Some(BackendSource::Object(shared.clone())),
                instance_id: Some((*id).to_owned()),
                // Ten thousand handlers may be due at one instant: each replica has room for all.
                max_concurrent_runs: Some(10_000),
                clock: Some(clock.clone()),
                ..SchedulerOptions::default()
            });
            let scheduler = scheduler.expect("a scheduler");
            let told = complaints.clone();
            scheduler.subscribe(Arc::new(move |event: &Event| {
                if matches!(event.name(), "missed" | "error" | "storeDown" | "overlap") {
                    told.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{event:?}"));
                }
            }));
            scheduler
        });
        let schedulers = schedulers.collect();
        Fleet { schedulers, ran: Arc::default(), complaints }
    }

    fn hourly(&self, count: usize, offset_ms: i64) {
        self.jobs(count, "1h", &json!({ "jitterMs": 0, "offsetMs": offset_ms }));
    }

    fn jobs(&self, count: usize, interval: &str, options: &Value) {
        for scheduler in &self.schedulers {
            for number in 0..count {
                let ran = self.ran.clone();
                let handler = move |context: Arc<JobContext>| {
                    let ran = ran.clone();
                    async move {
                        context.entered();
                        let mut ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
                        *ran.entry((context.job.clone(), context.slot)).or_default() += 1;
                        HandlerEnd::Returned(None)
                    }
                };
                let options = options.as_object().expect("an object");
                let job = JobDefinition {
                    name: format!("job-{number}"),
                    when: When::Every(json!(interval)),
                    options: JobOptions::from_json(options, Naming::Camel).expect("options"),
                    handler: Arc::new(handler),
                };
                scheduler.add(job).expect("a job");
            }
        }
    }

    async fn start(&self) {
        for scheduler in &self.schedulers {
            scheduler.start(true).await.expect("a start");
        }
        for scheduler in &self.schedulers {
            scheduler.ready().await.expect("every job is registered");
        }
    }

    async fn stop(&self) {
        for scheduler in &self.schedulers {
            scheduler.stop(None).await.expect("a stop");
        }
    }

    fn assert_each_once(&self, count: usize, slot: i64) {
        let ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeMap<(String, i64), usize> =
            (0..count).map(|number| ((format!("job-{number}"), slot), 1)).collect();
        assert_eq!(ran.len(), wanted.len(), "so many of the jobs ran");
        assert!(*ran == wanted, "each job once, and for this slot alone");
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*complaints, Vec::<String>::new());
    }
}

/// On the machine's own clock: what a SQLite file is asked can only be seen in real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_fleet_of_a_hundred_jobs_sends_the_store_no_statement() {
    let folder = Folder::new("idle");
    let options = SqliteOptions::new(folder.0.join("idle.db"));
    let store = Arc::new(SqliteBackend::with_options(options).expect("a store"));
    let clock = Arc::new(SystemClock);
    let fleet = Fleet::new(store.clone(), clock.clone(), &["A", "B", "C"]);
    // No slot is near: the next one is half an hour away.
    let half_an_hour_on = (clock.wall_ms() + 30 * MINUTE) % HOUR;
    fleet.hourly(100, half_an_hour_on);
    fleet.start().await;
    // The start is over when its last survey has been answered.
    let mut before = 0;
    while store.statements() != before {
        before = store.statements();
        sleep_for(&*clock, 1_000).await;
    }
    assert!(before > 0, "the start asked the store");

    // Longer than the longest single sleep, after which a scheduler looks at its clocks.
    sleep_for(&*clock, SLICE_MS + 2_000).await;
    assert_eq!(store.statements(), before, "statements while nothing was due");

    let reader = &fleet.schedulers[0];
    reader.history("job-0", 1, false).await.expect("a history");
    assert!(store.statements() > before, "a reader is counted");
    assert!(fleet.ran.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    fleet.stop().await;
}

#[tokio::test]
async fn ten_thousand_jobs_due_at_one_instant_run_once_each_on_three_replicas() {
    let clock = ManualClock::new(START_MS + 5 * MINUTE);
    let store = Arc::new(MemoryBackend::new(Arc::new(clock.clone())));
    let fleet = Fleet::new(store, Arc::new(clock.clone()), &["A", "B", "C"]);
    fleet.hourly(10_000, 0);
    fleet.start().await;
    clock.settle().await;
    clock.advance(56 * MINUTE).await;
    fleet.assert_each_once(10_000, START_MS + 60 * MINUTE);
    fleet.stop().await;
}
