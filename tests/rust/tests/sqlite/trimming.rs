//! What is kept, what is dropped, and what is never asked for again.

use anarchon::backend::contract::{
    Backend, ErrorInfo, JobLimits, OutcomeKind, RunStore, StoredResult,
};
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};

use crate::store::Directory;

#[tokio::test]
async fn d01_a_job_keeps_as_many_records_as_it_said_and_remembers_the_rest_by_the_floor() {
    let directory = Directory::new();
    let store = directory.open().await;
    store.prepare_job(&JobLimits { history_size: 5, ..limits("job") }).await.expect("registers");
    for slot in 1..=12 {
        let outcome = RunStore::claim(&store, &claim("job", slot, "token")).await.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "slot {slot}");
        assert!(store.finish("job", slot, "token", Status::Succeeded, None).await.expect("ends"));
    }
    // A job that has gone wild pushes nothing of another out.
    store.prepare_job(&JobLimits { history_size: 5, ..limits("wild") }).await.expect("registers");
    for slot in 1..=40 {
        RunStore::claim(&store, &claim("wild", slot, "token")).await.expect("answers");
        assert!(store.finish("wild", slot, "token", Status::Succeeded, None).await.expect("ends"));
    }
    let state = store.state("job").await.expect("reads");
    assert_eq!(state.runs.keys().map(|key| key.slot).collect::<Vec<_>>(), [8, 9, 10, 11, 12]);
    assert_eq!(state.header.floor, 7);
    let late = RunStore::claim(&store, &claim("job", 3, "other")).await.expect("answers");
    assert_eq!(late.kind, OutcomeKind::Late);
    let done = RunStore::claim(&store, &claim("job", 8, "other")).await.expect("answers");
    assert_eq!(done.kind, OutcomeKind::Done);
}

#[tokio::test]
async fn a_lost_claim_and_a_quiet_survey_write_nothing() {
    let directory = Directory::new();
    let store = directory.open().await;
    store.prepare_job(&limits("job")).await.expect("registers");
    RunStore::claim(&store, &claim("job", 1, "winner")).await.expect("answers");
    let before = store.statements();
    let lost = RunStore::claim(&store, &claim("job", 1, "loser")).await.expect("answers");
    assert_eq!(lost.kind, OutcomeKind::Running);
    assert_eq!(store.statements() - before, 1, "a loser is answered by one read");
    let before = store.statements();
    store.survey("job").await.expect("answers");
    store.prepare_job(&limits("job")).await.expect("registers again");
    assert_eq!(store.statements() - before, 2, "what changes nothing writes nothing");
}

#[tokio::test]
async fn a_result_comes_back_as_it_was_stored() {
    let directory = Directory::new();
    let store = directory.open().await;
    RunStore::claim(&store, &claim("job", 1, "token")).await.expect("answers");
    let result = StoredResult {
        slot: 1,
        manual: false,
        by: "host-token".to_owned(),
        status: Status::Failed,
        started_at: 1_000,
        ended_at: 1_250,
        attempt: Some(1),
        error: Some(ErrorInfo {
            name: "ValueError".to_owned(),
            message: "a \"quoted\" \u{1f600}\nline".to_owned(),
            stack: Some("x".repeat(8_192)),
        }),
        output: Some("y".repeat(8_192)),
        output_truncated: Some(true),
        abandoned: Some(false),
    };
    let ended = store.finish("job", 1, "token", Status::Failed, Some(&result)).await;
    assert!(ended.expect("ends"));
    let record = store.history("job", 1).await.expect("reads").remove(0);
    assert_eq!(record.status, Status::Failed);
    assert_eq!((record.started_at, record.duration_ms), (Some(1_000), Some(250)));
    assert_eq!((record.error, record.output), (result.error, result.output));
    assert_eq!((record.output_truncated, record.abandoned), (Some(true), Some(false)));
    assert_eq!((record.attempt, record.fence), (Some(1), Some(1)));
}
