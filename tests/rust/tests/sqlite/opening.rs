//! Opening, reading without creating, closing and opening again.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::sqlite::SqliteBackend;
use anarchon::clock::{Clock, SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon_tests::inputs::{claim, input, limits};

use crate::store::{Directory, opened};

#[tokio::test]
async fn a_missing_directory_is_named_with_what_to_do() {
    let directory = Directory::new();
    let mut options = directory.options();
    options.path = directory.path().join("missing").join("jobs.db");
    let shown = directory.path().join("missing").display().to_string();
    let store = SqliteBackend::with_options(options).expect("nothing is touched before init");
    let error = store.init().await.expect_err("the directory is missing");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains(&shown), "{error}");
    assert!(error.message().contains("create the directory"), "{error}");
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let directory = Directory::new();
    std::fs::write(
        directory.file(),
        "a text and no database, long enough to be looked at\n".repeat(99),
    )
    .expect("writes");
    let store = SqliteBackend::with_options(directory.options()).expect("allowed");
    let error = store.init().await.expect_err("it is a text");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
}

#[tokio::test]
async fn a_reader_never_creates_a_file() {
    let directory = Directory::new();
    let store = SqliteBackend::with_options(directory.options()).expect("allowed");
    let error = store.init_reader().await.expect_err("there is nothing to read");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("Readers create none"), "{error}");
    let left = std::fs::read_dir(directory.path()).expect("reads").count();
    assert_eq!(left, 0, "something was created");

    let writer = directory.open().await;
    assert!(Backend::claim(&writer, &input("job", 1, "token")).await.expect("answers"));
    store.init_reader().await.expect("now there is");
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 1);
    // The reader becomes a scheduler.
    store.init().await.expect("opens");
    assert!(Backend::claim(&store, &input("job", 2, "token")).await.expect("answers"));
}

#[tokio::test]
async fn a_reader_of_a_file_without_tables_creates_none() {
    let directory = Directory::new();
    std::fs::write(directory.file(), "").expect("writes");
    let store = SqliteBackend::with_options(directory.options()).expect("allowed");
    let error = store.init_reader().await.expect_err("there are no tables");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    assert_eq!(std::fs::metadata(directory.file()).expect("is there").len(), 0);
}

#[tokio::test]
async fn a_closed_store_can_be_opened_again() {
    let directory = Directory::new();
    let store = directory.open().await;
    for slot in 1..=3 {
        assert!(Backend::claim(&store, &input("job", slot, "token")).await.expect("answers"));
        store.close().await.expect("closes");
        store.close().await.expect("and again, which is harmless");
        let error = store.history("job", 1).await.expect_err("it is closed");
        assert_eq!(error.code(), Some(Code::BackendUnavailable));
        store.init().await.expect("opens again");
        store.init().await.expect("and again, which is harmless");
    }
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 3);
}

#[tokio::test]
async fn one_connection_beside_the_one_for_heartbeats_is_enough() {
    let directory = Directory::new();
    let mut options = directory.options();
    options.pool = 1;
    let store = opened(options).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let outcome = RunStore::claim(&store, &claim("job", 1, "token")).await.expect("answers");
    assert_eq!(outcome.kind, OutcomeKind::Won);
    assert!(store.heartbeat("job", 1, "token", 30_000).await.expect("answers"));
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 1);
}

#[tokio::test]
async fn an_idle_store_sends_no_statement() {
    let directory = Directory::new();
    let store = directory.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    RunStore::claim(&store, &claim("job", 1, "token")).await.expect("answers");
    store.heartbeat("job", 1, "token", 30_000).await.expect("answers");
    let before = store.statements();
    assert!(before > 0, "statements are counted");
    // Nothing may come, so there is no signal to wait for.
    sleep_for(&SystemClock, 300).await;
    assert_eq!(store.statements(), before);
}

#[tokio::test]
async fn the_clock_is_the_stores_and_counts_milliseconds() {
    let directory = Directory::new();
    let store = directory.open().await;
    let before = SystemClock.wall_ms();
    let outcome = RunStore::claim(&store, &claim("job", 1, "token")).await.expect("answers");
    let after = SystemClock.wall_ms();
    let now = outcome.now_ms.expect("the store tells its time");
    // SQLite rounds to the nearest millisecond, we round down.
    assert!((before..=after + 1).contains(&now), "{before} <= {now} <= {after}");
}

/// Heartbeats come from a thread and a runtime of their own; the first runtime may be gone by then.
#[test]
fn a_store_works_from_several_runtimes() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let directory = Directory::new();
    let (first, second) = (runtime(), runtime());
    let store = Arc::new(first.block_on(directory.open()));
    let outcome = first.block_on(RunStore::claim(&*store, &claim("job", 1, "token")));
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    let beating = store.clone();
    let beats = std::thread::spawn(move || {
        second.block_on(async {
            for _ in 0..20 {
                assert!(beating.heartbeat("job", 1, "token", 30_000).await.expect("answers"));
            }
        });
    });
    for slot in 2..=20 {
        let claim = claim("job", slot, "token");
        first.block_on(RunStore::claim(&*store, &claim)).expect("answers");
    }
    beats.join().expect("all heartbeats are answered");
    drop(first);
    runtime().block_on(async {
        assert_eq!(store.history("job", 50).await.expect("reads").len(), 20);
        store.close().await.expect("closes");
    });
}

/// Calls under way when the store is closed end, one way or the other, and open nothing again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_under_way_when_the_store_closes_opens_nothing_again() {
    let directory = Directory::new();
    let store = Arc::new(directory.open().await);
    let calls = (1..=50).map(|slot| {
        let store = store.clone();
        tokio::spawn(async move {
            let claim = claim(&format!("job-{slot}"), slot, "token");
            RunStore::claim(&*store, &claim).await.map(|outcome| outcome.kind)
        })
    });
    let calls: Vec<_> = calls.collect();
    tokio::task::yield_now().await;
    store.close().await.expect("closes");
    for call in calls {
        match call.await.expect("ends") {
            Ok(kind) => assert_eq!(kind, OutcomeKind::Won),
            Err(error) => assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}"),
        }
    }
    let sent = store.statements();
    store.init().await.expect("opens again");
    assert!(store.statements() > sent);
}

/// Whoever waits for a write may go away: what others queued behind it is still written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_is_given_up_leaves_the_store_working() {
    let directory = Directory::new();
    let store = Arc::new(directory.open().await);
    for slot in 1..=60 {
        let (given_up, kept) = (store.clone(), store.clone());
        let first = tokio::spawn(async move {
            RunStore::claim(&*given_up, &claim("first", slot, "token")).await
        });
        let second =
            tokio::spawn(
                async move { RunStore::claim(&*kept, &claim("second", slot, "token")).await },
            );
        for _ in 0..slot % 7 {
            tokio::task::yield_now().await;
        }
        first.abort();
        let outcome = second.await.expect("ends").expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "slot {slot}");
        let _given_up = first.await;
        let again = RunStore::claim(&*store, &claim("first", slot, "token")).await;
        assert_eq!(again.expect("answers").kind, OutcomeKind::Won, "slot {slot}");
    }
}

#[test]
fn a_url_says_which_file_and_how() {
    use anarchon::backends::sqlite::{SqliteOptions, Synchronous};
    let url = "sqlite:///var/lib/a%20b/jobs.db?namespace=staging&pool=1&createTables=false\
               &synchronous=normal&busyTimeoutMs=250";
    let options = SqliteOptions::from_url(url).expect("the URL is allowed");
    assert_eq!(options.path.to_str(), Some("/var/lib/a b/jobs.db"));
    assert_eq!((options.namespace.as_str(), options.pool), ("staging", 1));
    assert_eq!((options.create_tables, options.busy_timeout_ms), (false, 250));
    assert_eq!(options.synchronous, Synchronous::Normal);
    let short = SqliteOptions::from_url("sqlite:jobs.db").expect("the URL is allowed");
    assert_eq!(short.path.to_str(), Some("jobs.db"));
}

#[test]
fn a_url_that_is_not_allowed_says_what_is() {
    let said = |url: &str| match SqliteBackend::from_url(url) {
        Ok(_) => panic!("{url} is allowed"),
        Err(error) => {
            assert_eq!(error.code(), Some(Code::InvalidOption), "{error}");
            error.message().to_owned()
        }
    };
    assert!(said("sqlite:jobs.db?pol=3").contains("did you mean pool?"));
    assert!(said("sqlite:jobs.db?create_table=1").contains("did you mean createTables?"));
    assert!(said("sqlite:jobs.db?pool=0").contains("1 to 1000"));
    assert!(said("sqlite:jobs.db?pool=many").contains("a whole number"));
    assert!(said("sqlite:jobs.db?synchronous=off").contains("full, extra, normal"));
    assert!(said("sqlite:jobs.db?namespace=Prod").contains("a-z, 0-9"));
    assert!(said("sqlite:").contains("sqlite:anarchon.db"));
    assert!(said("sqlite::memory:").contains("use memory:"));
}
