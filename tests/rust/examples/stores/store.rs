//! Which stores are measured, and how one is asked.

use std::path::Path;
use std::sync::Arc;

use anarchon::backend::contract::{Backend, ClaimInput, ClaimKind, JobLimits, RunClaim};
use anarchon::backends;
use anarchon::clock::{Clock, SystemClock};
use anarchon::lease::model::Status;
use anarchon_tests::inputs;
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{
    MYSQL, NATS, POSTGRES, RABBITMQ, REDIS, Server, host_and_port, with_port,
};

use crate::bare::Bare;

/// The kinds of client by which a store can be asked without us.
#[derive(Clone, Copy)]
pub enum Client {
    Sqlite,
    Postgres,
    MySql,
    Redis,
    Nats,
    RabbitMq,
}

/// A store of the benchmark.
pub struct Store {
    pub name: &'static str,
    /// The URL without a query.
    pub url: String,
    /// What goes into the query: names of our own, and nothing that only some stores have.
    query: &'static str,
    pub client: Client,
    has_server: bool,
}

/// All stores whose server answers: one row each.
pub fn all(folder: &Path) -> Vec<Store> {
    let file = format!("sqlite://{}", folder.join("stores.db").display());
    let mut stores = vec![Store {
        name: "sqlite",
        url: file,
        query: "namespace=bench",
        client: Client::Sqlite,
        has_server: false,
    }];
    let servers: [(&str, Server, &str, Client); 5] = [
        ("postgres", POSTGRES, "table=bench_runs&notify=false", Client::Postgres),
        ("mysql", MYSQL, "table=bench_runs", Client::MySql),
        ("redis", REDIS, "prefix=anarchon-bench", Client::Redis),
        ("nats", NATS, "prefix=anarchon-bench", Client::Nats),
        // What is declared is gone a minute or two after the benchmark.
        ("rabbitmq", RABBITMQ, "prefix=anarchon-bench&dedupeWindowMs=60000", Client::RabbitMq),
    ];
    for (name, server, query, client) in servers {
        if let Some(url) = server.url() {
            stores.push(Store { name, url, query, client, has_server: true });
        }
    }
    stores
}

impl Store {
    /// The URL for so many connections. A store of NATS or RabbitMQ has one in any case.
    pub fn with_pool(&self, pool: usize) -> String {
        match self.client {
            Client::Nats | Client::RabbitMq => self.with_defaults(),
            _ => format!("{}?{}&pool={pool}", self.url, self.query),
        }
    }

    /// The URL with the defaults.
    pub fn with_defaults(&self) -> String {
        format!("{}?{}", self.url, self.query)
    }

    /// A proxy in front of the server, and the URL through it.
    pub async fn through_proxy(&self) -> Option<(Proxy, String)> {
        if !self.has_server {
            return None;
        }
        let proxy = Proxy::before(host_and_port(&self.url)).await;
        let url = with_port(&self.with_pool(1), proxy.port());
        Some((proxy, url))
    }

    /// Removes what was written.
    pub async fn clean(&self) {
        if let Some(mut bare) = Bare::connect(self).await {
            bare.clean().await;
        }
    }
}

/// The first slot of a measurement: of just now, for a store that forgets; the next are the
/// milliseconds after it.
pub fn first_slot() -> i64 {
    SystemClock.wall_ms() - 30_000
}

/// An open store.
pub async fn opened(url: &str) -> Arc<dyn Backend> {
    opened_on(url, Arc::new(SystemClock)).await
}

pub async fn opened_on(url: &str, clock: Arc<dyn Clock>) -> Arc<dyn Backend> {
    let backend = backends::open(url, &clock).expect("the URL is allowed");
    backend.init().await.expect("the store opens");
    backend
}

pub fn limits(job: &str) -> JobLimits {
    inputs::limits(job)
}

/// A claim whose lease outlasts the benchmark on the slowest machine.
pub fn input(job: &str, slot: i64, token: &str) -> ClaimInput {
    ClaimInput { lease_ms: Some(3_600_000), ..inputs::input(job, slot, token) }
}

/// Asks for a slot, with a lease where the store has leases: whether it was won.
pub async fn ask(store: &Arc<dyn Backend>, job: &str, slot: i64, token: &str) -> bool {
    let input = input(job, slot, token);
    let Some(runs) = store.runs() else {
        return store.claim(&input).await.expect("answers");
    };
    let claim =
        RunClaim { input, kind: ClaimKind::Slot, max_takeovers: 2, not_after_ms: Some(i64::MAX) };
    runs.claim(&claim).await.expect("answers").kind.as_str() == "won"
}

/// Ends what was won, where the store has leases.
pub async fn end(store: &Arc<dyn Backend>, job: &str, slot: i64, token: &str) {
    if let Some(runs) = store.runs() {
        let ended = runs.finish(job, slot, token, Status::Succeeded, None).await;
        assert!(ended.expect("answers"), "{job} {slot}");
    }
}
