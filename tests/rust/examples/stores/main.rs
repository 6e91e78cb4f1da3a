//! The stores' part of `make bench`: one JSON line per figure on standard output.
//!
//! What is compared is measured in turn, slot by slot, in this one process, on the same settings.
//!
//! usage: `stores FOLDER [PART [STORE]]`; the parts are trips, claims, together and idle
#![expect(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark reads the machine's clock, and rounds"
)]

mod bare;
mod claims;
mod idle;
mod store;
mod together;
mod trips;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

fn tell(name: &str, value: f64, unit: &str) {
    println!("{}", json!({ "language": "rust", "name": name, "value": value, "unit": unit }));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1_000.0
}

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).expect("usage: stores FOLDER [PART [STORE]]");
    let [only_part, only_store] = [2, 3].map(|at| std::env::args().nth(at));
    let wanted = |part: &str| only_part.as_deref().is_none_or(|only| only == part);
    let mut stores = store::all(Path::new(&folder));
    stores.retain(|store| only_store.as_deref().is_none_or(|only| only == store.name));
    for store in &stores {
        if wanted("trips") {
            trips::measure(store).await;
        }
        if wanted("claims") {
            claims::measure(store).await;
        }
        // A thousand jobs are a thousand streams on RabbitMQ, which is not made for that.
        if wanted("together") && store.name != "rabbitmq" {
            together::measure(store).await;
        }
    }
    if wanted("idle") {
        // AMQP itself shows now and then that a connection lives.
        let others: Vec<_> = stores.iter().filter(|store| store.name != "rabbitmq").collect();
        idle::measure(&others).await;
    }
    for store in &stores {
        store.clean().await;
    }
}
