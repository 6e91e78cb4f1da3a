//! Several processes on one file.

use std::process::Stdio;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::sqlite::{SqliteBackend, SqliteOptions};
use anarchon_tests::inputs::claim;
use futures_util::future::join_all;
use tokio::process::Command;

use crate::store::Directory;

const SLOTS: i64 = 200;
const PATH: &str = "ANARCHON_TEST_CHILD_PATH";
const NUMBER: &str = "ANARCHON_TEST_CHILD_NUMBER";

/// What a child does: asks for every slot and says how many it got.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(path) = std::env::var(PATH) else { return };
    let number = std::env::var(NUMBER).expect("the parent numbers its children");
    // As it is used: every commit waits for the disk.
    let store = SqliteBackend::with_options(SqliteOptions::new(path)).expect("allowed");
    store.init().await.expect("opens, also when all create it at once");
    let mut won = 0;
    for slot in 1..=SLOTS {
        let claim = claim("job", slot, &format!("{number}-{slot}"));
        let outcome = RunStore::claim(&store, &claim).await;
        won += usize::from(outcome.expect("answers").kind == OutcomeKind::Won);
    }
    store.close().await.expect("closes");
    println!("WON {won}");
}

async fn child_wins(path: &std::path::Path, number: usize) -> i64 {
    let output = Command::new(std::env::current_exe().expect("the test knows its file"))
        .args(["--exact", "processes::child", "--nocapture"])
        .env(PATH, path)
        .env(NUMBER, number.to_string())
        .stderr(Stdio::inherit())
        .output()
        .await
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "child {number}: {text}");
    let said = text.lines().find_map(|line| line.split("WON ").nth(1));
    said.expect("the child says what it won").trim().parse().expect("a number")
}

#[tokio::test]
async fn s13_six_processes_share_two_hundred_slots_without_an_error() {
    let directory = Directory::new();
    let file = directory.file();
    let wins = join_all((0..6).map(|number| child_wins(&file, number))).await;
    assert_eq!(wins.iter().sum::<i64>(), SLOTS, "{wins:?}");
    let store = directory.open().await;
    let state = store.state("job").await.expect("reads");
    assert_eq!(state.header.fence, SLOTS);
}
