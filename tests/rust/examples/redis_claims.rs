//! Claims per second against the bare minimum of Redis, `SET NX GET`, through the same library.
//!
//! `cargo run --release -p anarchon-tests --example redis_claims`; the server is that of
//! `ANARCHON_TEST_REDIS_URL` (default `redis://127.0.0.1:6379`). Both sides are measured in turn, in
//! rounds, from one connection and from sixteen, each connection with one call at a time.

use std::sync::Arc;

use anarchon::backend::contract::{
    Backend, ClaimInput, ClaimKind, JobLimits, OutcomeKind, Overlap, RunClaim, RunStore,
};
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::clock::{Clock, SystemClock};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

const JOBS: usize = 16;
const ROUNDS: i64 = 7;
const CLAIMS: i64 = 4_000;

fn claim(job: usize, slot: i64) -> RunClaim {
    RunClaim {
        input: ClaimInput {
            job: format!("bench-{job}"),
            slot,
            token: format!("{slot:032x}"),
            instance_id: "bench".to_owned(),
            history_size: 100,
            history_ttl_ms: None,
            lease_ms: Some(30_000),
            overlap: Some(Overlap::Allow),
            force: None,
            max_early_ms: None,
            asked_at: None,
        },
        kind: ClaimKind::Slot,
        max_takeovers: 2,
        not_after_ms: None,
    }
}

/// How many of `count` calls a second come to an end, spread over `lanes` that each wait for one.
async fn per_second<F: Future<Output = ()> + Send + 'static>(
    lanes: usize,
    count: i64,
    call: impl Fn(usize, i64) -> F + Clone + Send + Sync + 'static,
) -> i64 {
    let each = count / i64::try_from(lanes).expect("few");
    let before = SystemClock.mono_ms();
    let tasks = (0..lanes).map(|lane| {
        let call = call.clone();
        tokio::spawn(async move {
            for number in 0..each {
                call(lane, number).await;
            }
        })
    });
    for task in join_all(tasks).await {
        task.expect("no panic");
    }
    count * 1_000 / (SystemClock.mono_ms() - before).max(1)
}

async fn bare(connections: &[MultiplexedConnection], prefix: &str, round: i64) -> i64 {
    let (connections, prefix) = (connections.to_vec(), prefix.to_owned());
    per_second(connections.len(), CLAIMS, move |lane, number| {
        let mut connection = connections[lane].clone();
        let key = format!("{prefix}:bare:{round}:{lane}:{number}");
        async move {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(format!("{number:032x}")).arg("NX").arg("GET");
            let before: Option<String> = set.query_async(&mut connection).await.expect("answers");
            assert_eq!(before, None);
        }
    })
    .await
}

/// Each lane has its own job, and a run ends before the next one of its job is claimed, outside of
/// what is counted: as the slots of a schedule follow each other.
async fn ours(stores: &[Arc<RedisBackend>], round: i64, wanted: &'static str) -> i64 {
    let stores = stores.to_vec();
    let lanes = stores.len();
    per_second(lanes, CLAIMS, move |lane, number| {
        let store = stores[lane].clone();
        let job = usize::try_from(number).expect("positive") * lanes + lane;
        let slot = round * 1_000_000 + number + 1;
        let mut asked = claim(job % JOBS, slot);
        asked.input.job = format!("bench-{round}-{job}");
        asked.input.token.push_str(wanted);
        async move {
            let outcome = RunStore::claim(&*store, &asked).await.expect("answers");
            let won = outcome.kind == OutcomeKind::Won;
            assert_eq!(won, wanted == "won", "{:?}", outcome.kind);
        }
    })
    .await
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn hundredths(part: i64, whole: i64) -> String {
    let ratio = part * 100 / whole.max(1);
    format!("{}.{:02}", ratio / 100, ratio % 100)
}

#[tokio::main]
async fn main() {
    let url = std::env::var("ANARCHON_TEST_REDIS_URL")
        .unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let mut options = RedisOptions::from_url(&url).expect("a Redis URL");
    options.prefix = format!("anarchon-bench-{}", std::process::id());
    let client = redis::Client::open(format!("redis://{}/{}", options.address(), options.db));
    let client = client.expect("a Redis URL without a password");
    for lanes in [1, 16] {
        let mut connections = Vec::new();
        let mut stores = Vec::new();
        for _ in 0..lanes {
            let connection = client.get_multiplexed_async_connection().await;
            connections.push(connection.expect("the server is there"));
            let store = RedisBackend::with_options(options.clone()).expect("allowed");
            store.init().await.expect("opens");
            stores.push(Arc::new(store));
        }
        let (mut plain, mut won, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let round = round + i64::from(lanes) * 100;
            plain.push(bare(&connections, &options.prefix, round).await);
            won.push(ours(&stores, round, "won").await);
            lost.push(ours(&stores, round, "lost").await);
        }
        let (plain, won, lost) = (median(plain), median(won), median(lost));
        println!(
            "{lanes:>2} connections: SET NX GET {plain}/s, claims won {won}/s ({}), lost {lost}/s ({})",
            hundredths(won, plain),
            hundredths(lost, plain),
        );
    }
    together(&options).await;
    let mut connection = client.get_multiplexed_async_connection().await.expect("is there");
    let pattern = format!("{}:*", options.prefix);
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await.expect("answers");
    for some in keys.chunks(1_000) {
        let gone: i64 =
            redis::cmd("DEL").arg(some).query_async(&mut connection).await.expect("answers");
        assert!(gone > 0);
    }
}

/// A thousand jobs due at one instant, asked for by three replicas at once.
async fn together(options: &RedisOptions) {
    let mut stores = Vec::new();
    for _ in 0..3 {
        let store = RedisBackend::with_options(options.clone()).expect("allowed");
        store.init().await.expect("opens");
        stores.push(store);
    }
    let limits: Vec<JobLimits> = (0..1_000)
        .map(|job| JobLimits {
            name: format!("bench-{job}"),
            history_size: 100,
            schedule: Some("every:60000".to_owned()),
            ..JobLimits::default()
        })
        .collect();
    assert!(stores[0].prepare_jobs(&limits).await.iter().all(Result::is_ok));
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        let before = SystemClock.mono_ms();
        let asked = stores.iter().enumerate().map(|(replica, store)| async move {
            let claims: Vec<RunClaim> = (0..1_000)
                .map(|job| {
                    let mut asked = claim(job, round * 60_000);
                    asked.input.token = format!("{replica}");
                    asked
                })
                .collect();
            let outcomes = store.claim_all(&claims).await;
            let won = |outcome: &OutcomeKind| *outcome == OutcomeKind::Won;
            outcomes.into_iter().filter(|one| won(&one.as_ref().expect("answers").kind)).count()
        });
        let won: usize = join_all(asked).await.into_iter().sum();
        times.push(SystemClock.mono_ms() - before);
        assert_eq!(won, 1_000, "one winner each");
    }
    println!("1,000 jobs due at once, 3 replicas: {} ms to the last answer", median(times));
}
