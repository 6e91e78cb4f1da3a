//! A thousand jobs due at one instant on three replicas: how long until all have been started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler,
    SchedulerOptions, When,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::store::Store;
use crate::{median, now_ms, tell};

const JOBS: usize = 1_000;
const ROUNDS: usize = 3;

/// When each job was started (ms), as often as it was.
type Started = Arc<Mutex<BTreeMap<String, Vec<f64>>>>;

struct Note(Started);

#[async_trait]
impl Handler for Note {
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        let at = now_ms();
        context.entered();
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        started.entry(context.job.clone()).or_default().push(at);
        HandlerEnd::Returned(None)
    }
}

fn scheduler(url: &str, number: usize) -> Scheduler {
    Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Url(url.to_owned())),
        instance_id: Some(format!("bench-{number}")),
        max_concurrent_runs: Some(1_000),
        ..SchedulerOptions::default()
    })
    .expect("the options are allowed")
}

async fn add(replicas: &[Scheduler], round: usize, at: i64, started: &Started) {
    let options = json!({ "jitterMs": 0 });
    let options = options.as_object().cloned().unwrap_or_default();
    for number in 0..JOBS {
        for replica in replicas {
            let job = JobDefinition {
                name: format!("together-{round}-{number}"),
                when: When::At(Value::from(at)),
                options: JobOptions::from_json(&options, Naming::Camel).expect("allowed"),
                handler: Arc::new(Note(started.clone())),
            };
            replica.add(job).expect("the job is allowed");
        }
    }
    for replica in replicas {
        replica.ready().await.expect("registers");
    }
}

/// Milliseconds from the instant to the last start; `None` if the machine was too slow to register
/// all jobs before it.
async fn round(replicas: &[Scheduler], number: usize, lead_ms: f64) -> Option<f64> {
    let started = Started::default();
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds are whole")]
    let instant = (now_ms() + lead_ms) as i64;
    add(replicas, number, instant, &started).await;
    let at = instant as f64;
    if now_ms() > at - 200.0 {
        return None;
    }
    let begun = || started.lock().unwrap_or_else(PoisonError::into_inner).len();
    while begun() < JOBS {
        assert!(now_ms() < at + 60_000.0, "only {} jobs were started in a minute", begun());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Whoever would start one again has the time to.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = started.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(started.values().all(|starts| starts.len() == 1), "each job is started once");
    Some(started.values().flatten().fold(0.0, |last, start| f64::max(last, *start)) - at)
}

/// The median of three times.
pub async fn measure(store: &Store) {
    let replicas: Vec<Scheduler> =
        (0..3).map(|number| scheduler(&store.with_defaults(), number)).collect();
    for replica in &replicas {
        replica.start(true).await.expect("starts");
    }
    let (mut times, mut lead_ms) = (Vec::new(), 4_000.0);
    for number in 0.. {
        match round(&replicas, number, lead_ms).await {
            Some(time) => times.push(time),
            None => lead_ms *= 2.0,
        }
        if times.len() == ROUNDS {
            break;
        }
    }
    for replica in &replicas {
        replica.stop(None).await.expect("stops");
    }
    tell(&format!("{}: 1,000 jobs due at once, 3 replicas", store.name), median(times), "ms");
}
