//! What an idle fleet asks of its store: counted on the wire, on all stores at the same time.

use std::sync::Arc;
use std::time::Duration;

use anarchon::clock::SLICE_MS;
use anarchon::host::names::Naming;
use anarchon::scheduler::{
    BackendSource, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    When,
};
use futures_util::future::join_all;
use serde_json::{Map, Value};

use crate::store::{Client, Store};
use crate::{now_ms, tell};

const HOUR: f64 = 3_600_000.0;
/// Longer than the longest single sleep, after which a scheduler looks at its clocks.
const QUIET: Duration = Duration::from_millis(SLICE_MS as u64 + 5_000);

fn replica(url: &str, number: usize, far: i64) -> Scheduler {
    let replica = Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Url(url.to_owned())),
        instance_id: Some(format!("idle-{number}")),
        ..SchedulerOptions::default()
    });
    let replica = replica.expect("the options are allowed");
    for number in 0..100 {
        let handler = |_: Arc<JobContext>| async { HandlerEnd::Returned(None) };
        let job = JobDefinition {
            name: format!("idle-{number}"),
            when: When::At(Value::from(far + number)),
            options: JobOptions::from_json(&Map::new(), Naming::Camel).expect("allowed"),
            handler: Arc::new(handler),
        };
        replica.add(job).expect("the job is allowed");
    }
    replica
}

/// The client of NATS asks now and then by itself whether its server is still there.
fn whose(store: &Store) -> &'static str {
    match store.client {
        Client::Nats => "pings by the clients of an idle fleet of 3 in 15 s",
        _ => "round trips of an idle fleet of 3 in 15 s",
    }
}

/// Three replicas with a hundred jobs, none of which is due.
async fn idle(store: &Store) {
    let Some((proxy, url)) = store.through_proxy().await else { return };
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds are whole")]
    let far = (now_ms() + 10.0 * HOUR) as i64;
    let replicas: Vec<Scheduler> = (0..3).map(|number| replica(&url, number, far)).collect();
    for replica in &replicas {
        replica.start(true).await.expect("starts");
        replica.ready().await.expect("registers");
    }
    // The start is over when its last survey has been answered.
    let mut before = 0;
    while proxy.turns() != before {
        before = proxy.turns();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    tokio::time::sleep(QUIET).await;
    let trips = (proxy.turns() - before) as f64;
    tell(&format!("{}: {}", store.name, whose(store)), trips, "");
    for replica in &replicas {
        replica.stop(None).await.expect("stops");
    }
}

/// All stores at the same time.
pub async fn measure(stores: &[&Store]) {
    join_all(stores.iter().map(|store| idle(store))).await;
}
