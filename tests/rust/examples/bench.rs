//! The Rust part of `make bench`: one JSON line per figure on standard output.
//!
//! Figures that are compared are measured in turn, in this one process, on the same settings.
#![expect(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark reads the machine's clock, and rounds"
)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anarchon::Result;
use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, Handler, HandlerEnd, JobContext, JobDefinition, JobOptions, RunNow, Scheduler,
    SchedulerOptions, When,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Executor};

fn tell(name: &str, value: f64, unit: &str) {
    println!("{}", json!({ "language": "rust", "name": name, "value": value, "unit": unit }));
}

fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (share * last as f64).ceil() as usize;
    sorted[index.min(last)]
}

fn now_ms() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64() * 1_000.0
}

/// Resident memory of this process (KiB).
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0.0)
}

/// A connection with the settings of the SQLite store, for the bare statements.
async fn bare_connection(path: &Path) -> sqlx::Result<SqliteConnection> {
    let mut bare = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .busy_timeout(Duration::from_millis(20))
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
        .connect()
        .await?;
    bare.execute(
        "CREATE TABLE claims (job TEXT, slot INTEGER, token TEXT, PRIMARY KEY (job, slot)) \
         WITHOUT ROWID",
    )
    .await?;
    Ok(bare)
}

/// Notes how late it was entered.
struct Note {
    late: Arc<Mutex<Vec<f64>>>,
}

#[async_trait]
impl Handler for Note {
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        let late = now_ms() - context.slot as f64;
        context.entered();
        self.late.lock().expect("no holder panics").push(late);
        HandlerEnd::Returned(None)
    }
}

fn scheduler(url: &str, id: &str) -> Result<Scheduler> {
    Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Url(url.to_owned())),
        instance_id: Some(id.to_owned()),
        ..SchedulerOptions::default()
    })
}

fn job(name: &str, interval: &str, options: &Value, late: &Arc<Mutex<Vec<f64>>>) -> JobDefinition {
    let options = options.as_object().cloned().unwrap_or_default();
    JobDefinition {
        name: name.to_owned(),
        when: When::Every(Value::from(interval)),
        options: JobOptions::from_json(&options, Naming::Camel).expect("the options are right"),
        handler: Arc::new(Note { late: late.clone() }),
    }
}

/// How long after its slot a handler is entered: one job every 100 ms, no jitter.
async fn lateness(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut bare = bare_connection(&folder.join("timer.db")).await?;
    let mut timer = Vec::new();
    for _ in 0..100 {
        let now = now_ms();
        let slot = (now / 100.0).floor() * 100.0 + 100.0;
        tokio::time::sleep(Duration::from_secs_f64((slot - now) / 1_000.0)).await;
        sqlx::query("INSERT INTO claims VALUES ('tick', ?, 'token') ON CONFLICT DO NOTHING")
            .bind(slot)
            .execute(&mut bare)
            .await?;
        timer.push(now_ms() - slot);
    }
    tell("lateness p50: bare timer and INSERT", percentile(&timer, 0.5), "ms");
    tell("lateness p99: bare timer and INSERT", percentile(&timer, 0.99), "ms");

    let url = format!("sqlite://{}", folder.join("lateness.db").display());
    let late = Arc::default();
    let scheduler = scheduler(&url, "bench")?;
    scheduler.add(job("tick", "100ms", &json!({ "jitterMs": 0 }), &late))?;
    scheduler.start(true).await?;
    while late.lock().expect("no holder panics").len() < 105 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    scheduler.stop(None).await?;
    // The first few wait for a cold cache.
    let late = late.lock().expect("no holder panics")[5..].to_vec();
    tell("lateness p50", percentile(&late, 0.5), "ms");
    tell("lateness p99", percentile(&late, 0.99), "ms");
    Ok(())
}

/// Options that let the store forget a run after a second: thousands of runs at once shall not make
/// each other slow.
fn brief() -> Value {
    json!({ "historySize": 5, "leaseMs": 1_000, "jitterMs": 0, "maxLateMs": 0 })
}

/// One handler call and one `history()` call, without a bridge.
async fn calls() -> Result<(), Box<dyn std::error::Error>> {
    let late = Arc::default();
    let scheduler = scheduler("memory:", "bench")?;
    scheduler.add(job("call", "1h", &brief(), &late))?;
    scheduler.start(true).await?;
    let count = 2_000;
    let begin = Instant::now();
    for _ in 0..count {
        scheduler.run_now("call", RunNow::default()).await?;
    }
    tell("one handler call", begin.elapsed().as_secs_f64() * 1e6 / f64::from(count), "µs");
    let begin = Instant::now();
    for _ in 0..count {
        scheduler.history("call", 1, false).await?;
    }
    tell("one history() call", begin.elapsed().as_secs_f64() * 1e6 / f64::from(count), "µs");
    scheduler.stop(None).await?;
    Ok(())
}

/// Ten thousand jobs: the time and the memory that adding them takes.
async fn many() -> Result<(), Box<dyn std::error::Error>> {
    let late = Arc::default();
    let scheduler = scheduler("memory:", "bench")?;
    let before = resident_kib();
    let begin = Instant::now();
    for number in 0..10_000 {
        scheduler.add(job(&format!("job-{number}"), "1h", &json!({}), &late))?;
    }
    tell("10,000 jobs: add", begin.elapsed().as_secs_f64() * 1e3, "ms");
    let begin = Instant::now();
    scheduler.start(true).await?;
    scheduler.ready().await?;
    tell("10,000 jobs: start until ready", begin.elapsed().as_secs_f64() * 1e3, "ms");
    tell("10,000 jobs: memory", (resident_kib() - before) / 1_024.0, "MiB");
    scheduler.stop(None).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: bench FOLDER [PART]")?;
    let folder = Path::new(&folder);
    let only = std::env::args().nth(2);
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("calls") {
        calls().await?;
    }
    if wanted("many") {
        many().await?;
    }
    if wanted("lateness") {
        lateness(folder).await?;
    }
    Ok(())
}
