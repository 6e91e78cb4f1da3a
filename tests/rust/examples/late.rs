//! A replica of the lateness part of `make bench`, in Rust: the same configuration and the same
//! lines as bench/late.py and bench/late.mjs.
//!
//! usage: late CONFIG_JSON
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler,
    SchedulerOptions, When,
};
use async_trait::async_trait;
use serde_json::{Value, json};

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1_000.0
}

/// The lines that are printed at the end.
type Lines = Arc<Mutex<Vec<Value>>>;

struct Note {
    store: String,
    lines: Lines,
}

#[async_trait]
impl Handler for Note {
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        let at = now_ms();
        context.entered();
        let line = json!({
            "language": "rust", "store": self.store, "slot": context.slot, "at": at,
        });
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        HandlerEnd::Returned(None)
    }
}

fn replica(store: &Value, id: &str, lines: &Lines) -> Scheduler {
    let text = |name: &str| store[name].as_str().unwrap_or_default().to_owned();
    let scheduler = Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Url(text("url"))),
        instance_id: Some(id.to_owned()),
        ..SchedulerOptions::default()
    })
    .expect("the options are allowed");
    let options = json!({ "jitterMs": 0, "offsetMs": store["offsetMs"] });
    let options = options.as_object().cloned().unwrap_or_default();
    let job = JobDefinition {
        name: text("job"),
        when: When::Every(json!("1s")),
        options: JobOptions::from_json(&options, Naming::Camel).expect("allowed"),
        handler: Arc::new(Note { store: text("name"), lines: lines.clone() }),
    };
    scheduler.add(job).expect("the job is allowed");
    scheduler
}

#[tokio::main]
async fn main() {
    let config = std::env::args().nth(1).expect("usage: late CONFIG_JSON");
    let config: Value = serde_json::from_str(&config).expect("the configuration is JSON");
    let id = config["id"].as_str().unwrap_or_default();
    let lines = Lines::default();
    let stores = config["stores"].as_array().cloned().unwrap_or_default();
    let replicas: Vec<Scheduler> = stores.iter().map(|store| replica(store, id, &lines)).collect();
    for replica in &replicas {
        replica.start(true).await.expect("starts");
    }
    let until = config["until"].as_f64().unwrap_or_default();
    tokio::time::sleep(Duration::from_secs_f64(((until - now_ms()) / 1_000.0).max(0.0))).await;
    for replica in &replicas {
        replica.stop(None).await.expect("stops");
    }
    for line in lines.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{line}");
    }
}
