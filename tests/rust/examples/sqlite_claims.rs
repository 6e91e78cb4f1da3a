//! Claims per second on SQLite against a bare `INSERT … ON CONFLICT DO NOTHING` on the same
//! settings, and how long 10,000 jobs take.
//!
//! `cargo run --example sqlite_claims [directory]`

use std::path::{Path, PathBuf};

use anarchon::backend::contract::{
    Backend, ClaimInput, ClaimKind, Finish, JobLimits, Overlap, RunClaim, RunStore,
};
use anarchon::backends::sqlite::{SqliteBackend, SqliteOptions, Synchronous};
use anarchon::clock::{Clock, SystemClock};
use anarchon::lease::model::Status;
use futures_util::future::join_all;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

const CLAIMS: i64 = 500;

fn claim(job: &str, slot: i64) -> RunClaim {
    RunClaim {
        input: ClaimInput {
            job: job.to_owned(),
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

fn report(what: &str, count: i64, took_ms: i64) {
    let per_second = count * 1_000 / took_ms.max(1);
    println!("{what:<58} {count:>6} in {took_ms:>6} ms  {per_second:>7}/s");
}

async fn timed<F: Future>(what: &str, count: i64, work: F) -> F::Output {
    let before = SystemClock.mono_ms();
    let answer = work.await;
    report(what, count, SystemClock.mono_ms() - before);
    answer
}

async fn bare(path: &Path, synchronous: SqliteSynchronous, what: &str) {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous);
    let mut conn = options.connect().await.expect("opens");
    sqlx::query(
        "CREATE TABLE claims (job TEXT, slot INTEGER, token TEXT, held_by TEXT, \
         PRIMARY KEY (job, slot))",
    )
    .execute(&mut conn)
    .await
    .expect("creates");
    timed(what, CLAIMS, async {
        for slot in 0..CLAIMS {
            sqlx::query("INSERT INTO claims VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
                .bind("job")
                .bind(slot)
                .bind(format!("{slot:032x}"))
                .bind("bench")
                .execute(&mut conn)
                .await
                .expect("inserts");
        }
    })
    .await;
    conn.close().await.expect("closes");
}

async fn ours(path: PathBuf, synchronous: Synchronous, word: &str) {
    let mut options = SqliteOptions::new(path);
    options.synchronous = synchronous;
    let store = SqliteBackend::with_options(options).expect("allowed");
    store.init().await.expect("opens");
    let store = &store;

    let what = format!("{word}: Backend::claim, one after the other");
    timed(&what, CLAIMS, async {
        for slot in 1..=CLAIMS {
            assert!(Backend::claim(store, &claim("plain", slot).input).await.expect("answers"));
        }
    })
    .await;

    let what = format!("{word}: claim, one after the other, each of another job");
    timed(&what, CLAIMS, async {
        for slot in 1..=CLAIMS {
            let won = RunStore::claim(store, &claim(&format!("job-{slot}"), slot)).await;
            assert_eq!(won.expect("answers").kind.as_str(), "won");
        }
    })
    .await;

    let what = format!("{word}: claim and finish of one job (2 calls each)");
    timed(&what, CLAIMS, async {
        for slot in 1..=CLAIMS {
            let claim = claim("one", slot);
            assert_eq!(RunStore::claim(store, &claim).await.expect("answers").kind.as_str(), "won");
            let token = &claim.input.token;
            let ended = store.finish("one", slot, token, Status::Succeeded, None).await;
            assert!(ended.expect("answers"));
        }
    })
    .await;

    let what = format!("{word}: claim, 8 at once, each of another job");
    timed(&what, CLAIMS * 4, async {
        join_all((0..8).map(|task| async move {
            for slot in 1..=CLAIMS / 2 {
                let claim = claim(&format!("eight-{task}-{slot}"), slot);
                let won = RunStore::claim(store, &claim).await;
                assert_eq!(won.expect("answers").kind.as_str(), "won");
            }
        }))
        .await;
    })
    .await;

    let what = format!("{word}: claim, lost, one after the other");
    timed(&what, CLAIMS, async {
        for slot in 1..=CLAIMS {
            let mut late = claim(&format!("job-{slot}"), slot);
            late.input.token = "another".to_owned();
            let lost = RunStore::claim(store, &late).await.expect("answers");
            assert_eq!(lost.kind.as_str(), "running");
        }
    })
    .await;

    let jobs: Vec<JobLimits> = (0..10_000)
        .map(|number| JobLimits {
            name: format!("many-{number}"),
            history_size: 100,
            schedule: Some("every:60000".to_owned()),
            ..JobLimits::default()
        })
        .collect();
    let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    for what in ["prepare_jobs, new", "prepare_jobs, known"] {
        let answers = timed(&format!("{word}: {what}"), 10_000, store.prepare_jobs(&jobs)).await;
        assert!(answers.iter().all(Result::is_ok));
    }
    let answers = timed(&format!("{word}: survey_all"), 10_000, store.survey_all(&names)).await;
    assert!(answers.iter().all(Result::is_ok));
    let claims: Vec<RunClaim> = names.iter().take(1_000).map(|name| claim(name, 60_000)).collect();
    let answers = timed(&format!("{word}: claim_all"), 1_000, store.claim_all(&claims)).await;
    assert!(answers.iter().all(|one| one.as_ref().is_ok_and(|one| one.kind.as_str() == "won")));
    let ends: Vec<Finish> = claims
        .iter()
        .map(|claim| Finish {
            job: claim.input.job.clone(),
            slot: claim.input.slot,
            token: claim.input.token.clone(),
            status: Status::Succeeded,
            result: None,
        })
        .collect();
    let answers = timed(&format!("{word}: finish_all"), 1_000, store.finish_all(&ends)).await;
    assert!(answers.iter().all(|one| matches!(one, Ok(true))));
    // What a fleet with a past has: twenty records a job.
    for slot in 2..=21 {
        for ends in ends.chunks(1_000) {
            let all: Vec<RunClaim> =
                ends.iter().map(|end| claim(&end.job, slot * 60_000)).collect();
            store.claim_all(&all).await;
            let all: Vec<Finish> = all
                .iter()
                .map(|claim| Finish {
                    job: claim.input.job.clone(),
                    slot: claim.input.slot,
                    token: claim.input.token.clone(),
                    status: Status::Succeeded,
                    result: None,
                })
                .collect();
            store.finish_all(&all).await;
        }
    }
    let what = format!("{word}: survey_all, 1,000 of them with 21 records");
    let answers = timed(&what, 10_000, store.survey_all(&names)).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(answers[0].as_ref().map_or(0, |survey| survey.slots.len()), 21);
    store.close().await.expect("closes");
}

#[tokio::main]
async fn main() {
    let base = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("anarchon-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory can be written");
    let file = |name: &str| directory.join(name);
    bare(&file("bare-full.db"), SqliteSynchronous::Full, "full: bare insert, one after the other")
        .await;
    ours(file("ours-full.db"), Synchronous::Full, "full").await;
    bare(
        &file("bare-normal.db"),
        SqliteSynchronous::Normal,
        "normal: bare insert, one after the other",
    )
    .await;
    ours(file("ours-normal.db"), Synchronous::Normal, "normal").await;
    let _gone = std::fs::remove_dir_all(&directory);
}
