//! A Rust replica for the fleet tests: the same configuration and the same log lines as
//! tests/fleet/replica.py and replica.mjs.
//!
//! usage: fleet_replica CONFIG_JSON
//!
//! It stops when its standard input ends, where the others wait for SIGTERM.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anarchon::clock::{Clock, SystemClock};
use anarchon::events::Event;
use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    When,
};
use serde_json::{Map, Value, json};

/// What is noted of events, as the other languages name them.
const EVENTS: [&str; 8] =
    ["missed", "takeover", "leaseLost", "overlap", "skew", "overdue", "storeDown", "error"];

/// This replica's own log.
struct Log {
    by: String,
    file: Mutex<File>,
}

impl Log {
    /// One line, written before anything else happens.
    fn note(&self, what: &str, more: Value) {
        let mut line = json!({ "what": what, "by": self.by, "at": SystemClock.wall_ms() });
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes()).expect("the log can be written");
    }
}

fn run_of(context: &JobContext) -> Value {
    json!({
        "job": context.job,
        "slot": context.slot,
        "attempt": context.attempt,
        "fence": context.fence,
        "trigger": context.trigger.as_str(),
    })
}

/// The name of an event in the logs.
fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
        text
    })
}

fn noted(event: &Event) -> Value {
    match event {
        Event::Error { error, .. } => json!({ "event": error.to_string() }),
        other => json!({ "event": serde_json::to_value(other).expect("an event is JSON") }),
    }
}

/// A job of the configuration, whose handler notes its start and its end around the work.
fn definition(job: &Value, log: &Arc<Log>) -> JobDefinition {
    let ms = job["ms"].as_i64().unwrap_or(0);
    let work = job["work"].as_str().unwrap_or_default();
    assert!(matches!(work, "quick" | "sleep"), "the work {work:?} is not known here");
    let log = log.clone();
    let handler = move |context: Arc<JobContext>| {
        let log = log.clone();
        async move {
            log.note("start", run_of(&context));
            context.sleep(ms).await;
            let end = if context.cancellation.is_cancelled() { "cancelled" } else { "end" };
            log.note(end, run_of(&context));
            HandlerEnd::Returned(None)
        }
    };
    let when = job["when"].clone();
    let empty = Map::new();
    let options = job["options"].as_object().unwrap_or(&empty);
    JobDefinition {
        name: job["name"].as_str().expect("a job has a name").to_owned(),
        when: if job["kind"] == "every" { When::Every(when) } else { When::At(when) },
        options: JobOptions::from_json(options, Naming::Camel).expect("the options are allowed"),
        handler: Arc::new(handler),
    }
}

/// Waits until nobody holds our standard input any more.
async fn end_of_input() {
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ended = reading.await;
}

#[tokio::main]
async fn main() {
    let config = std::env::args().nth(1).expect("usage: fleet_replica CONFIG_JSON");
    let config: Value = serde_json::from_str(&config).expect("the configuration is JSON");
    let text = |name: &str| config[name].as_str().expect("a text").to_owned();
    let file = OpenOptions::new().append(true).create(true).open(text("log")).expect("opens");
    let log = Arc::new(Log { by: text("id"), file: Mutex::new(file) });
    let scheduler = Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Url(text("url"))),
        instance_id: Some(text("id")),
        ..SchedulerOptions::default()
    })
    .expect("the options are allowed");
    let told = log.clone();
    scheduler.subscribe(Arc::new(move |event: &Event| {
        if EVENTS.contains(&event.name()) {
            told.note(&snake(event.name()), noted(event));
        }
    }));
    for job in config["jobs"].as_array().expect("a list of jobs") {
        scheduler.add(definition(job, &log)).expect("the job is allowed");
    }
    scheduler.start(true).await.expect("starts");
    scheduler.ready().await.expect("every job is registered");
    log.note("ready", json!({}));
    end_of_input().await;
    let report = scheduler.stop(config["graceMs"].as_i64()).await.expect("stops");
    let (still, released) = (report.still_running.len(), report.released.len());
    log.note("stopped", json!({ "still_running": still, "released": released }));
}
