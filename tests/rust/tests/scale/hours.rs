//! What a fleet whose jobs are far away asks of a server: counted on the wire, on a manual clock.

use std::sync::Arc;

use anarchon::backends;
use anarchon::clock::{Activity, ActivityGuard, Clock, Shelf, SystemClock, Wake};
use anarchon::testing::ManualClock;
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{MYSQL, NATS, POSTGRES, REDIS, Server, host_and_port, with_port};
use async_trait::async_trait;
use serde_json::json;

use crate::{Fleet, HOUR, MINUTE};

const JOBS: usize = 3;
const MONTH: i64 = 30 * 24 * HOUR;
const HOURS: usize = 5;

/// The clock of a machine whose hours go by when the test says so. A scheduler takes a manual clock
/// only with stores that go by it; servers have clocks of their own.
struct Machine(ManualClock);

#[async_trait]
impl Clock for Machine {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }

    fn mono_ms(&self) -> i64 {
        self.0.mono_ms()
    }

    async fn sleep(&self, wake: Wake) -> Option<ActivityGuard> {
        self.0.sleep(wake).await
    }

    fn activity(&self) -> Option<&Activity> {
        self.0.activity()
    }

    fn shelf(&self) -> &Shelf {
        self.0.shelf()
    }
}

/// A replica that reaches the server through a proxy of its own.
struct Replica {
    proxy: Proxy,
    fleet: Fleet,
}

impl Replica {
    async fn start(url: &str, clock: &ManualClock, id: &str) -> Replica {
        let proxy = Proxy::before(host_and_port(url)).await;
        let namespace = format!("namespace=hours-{}", std::process::id());
        let url = format!("{}?{namespace}", with_port(url, proxy.port()));
        let of_the_store: Arc<dyn Clock> = Arc::new(SystemClock);
        let backend = backends::open(&url, &of_the_store).expect("the URL is allowed");
        let clock = Arc::new(Machine(clock.clone()));
        let fleet = Fleet::new(backend, clock.clone(), &[id]);
        // The next slot is half a month away.
        let offset_ms = (clock.wall_ms() + MONTH / 2) % MONTH;
        fleet.jobs(JOBS, "30d", &json!({ "jitterMs": 0, "offsetMs": offset_ms }));
        fleet.start().await;
        Replica { proxy, fleet }
    }

    async fn end(&self) {
        for job in 0..JOBS {
            self.fleet.schedulers[0].forget(&format!("job-{job}")).await.expect("forgets");
        }
        self.fleet.stop().await;
    }
}

/// Three replicas with jobs none of which is due, for some hours.
async fn one_read_an_hour_and_nothing_else(server: Server) {
    let Some(url) = server.url() else { return };
    // A server goes by its own clock.
    let clock = ManualClock::new(SystemClock.wall_ms());
    let mut replicas = Vec::new();
    for id in ["A", "B", "C"] {
        replicas.push(Replica::start(&url, &clock, id).await);
    }
    let trips = || -> Vec<u64> { replicas.iter().map(|one| one.proxy.turns()).collect() };
    // From one minute before the hour of the fleet to the next: that is one read later.
    clock.advance(HOUR - MINUTE).await;
    for _ in 0..HOURS {
        let before = trips();
        clock.advance(2 * MINUTE).await;
        let after: Vec<u64> = before.iter().map(|trips| trips + 1).collect();
        assert_eq!(trips(), after, "at the hour: all jobs in one round trip");
        clock.advance(HOUR - 2 * MINUTE).await;
        assert_eq!(trips(), after, "until the next");
    }
    for replica in &replicas {
        replica.end().await;
    }
}

#[tokio::test]
async fn postgres_is_asked_once_an_hour() {
    one_read_an_hour_and_nothing_else(POSTGRES).await;
}

#[tokio::test]
async fn mysql_is_asked_once_an_hour() {
    one_read_an_hour_and_nothing_else(MYSQL).await;
}

#[tokio::test]
async fn redis_is_asked_once_an_hour() {
    one_read_an_hour_and_nothing_else(REDIS).await;
}

#[tokio::test]
async fn nats_is_asked_once_an_hour() {
    one_read_an_hour_and_nothing_else(NATS).await;
}
