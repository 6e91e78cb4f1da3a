//! Names and numbers of every kind.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::lease::model::Status;

use crate::store::{Directory, claim, input, limits};

fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a:b",
        "a b",
        "a.b",
        ".a",
        "a..b",
        "a*",
        "a>",
        "a%",
        "a_",
        "j\u{f3}b",
        "jo\u{301}b",
        "order",
        "x'; drop table claim;--",
        "\u{1f600}",
        "\u{1f601}",
        "x",
        "Job",
        "job",
        "job ",
        " job",
        "?",
        "$1",
        "\"",
        "\\",
        "null",
        "0",
    ]
    .map(str::to_owned)
    .into();
    names.push("n".repeat(255));
    names.push("n".repeat(254));
    names
}

#[tokio::test]
async fn two_different_names_never_share_a_slot() {
    let directory = Directory::new();
    let store = directory.open().await;
    for (number, name) in names().iter().enumerate() {
        store.prepare_job(&limits(name)).await.expect("registers");
        let claim = claim(name, 1_000, &format!("token-{number}"));
        let outcome = RunStore::claim(&store, &claim).await.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "{name:?}");
    }
    for (number, name) in names().iter().enumerate() {
        let records = store.history(name, 10).await.expect("reads");
        let by = records.iter().map(|record| record.by.as_str()).collect::<Vec<_>>();
        assert_eq!(by, [format!("host-token-{number}")], "{name:?}");
        assert_eq!(&records[0].job, name);
    }
}

#[tokio::test]
async fn names_stay_apart_when_they_travel_together() {
    let directory = Directory::new();
    let store = directory.open().await;
    let names = names();
    let claims: Vec<_> = names.iter().map(|name| claim(name, 1_000, name)).collect();
    for (answer, name) in store.claim_all(&claims).await.into_iter().zip(&names) {
        assert_eq!(answer.expect("answers").kind, OutcomeKind::Won, "{name:?}");
    }
    for (survey, name) in store.survey_all(&names).await.into_iter().zip(&names) {
        let runs = survey.expect("answers").runs;
        assert_eq!(runs.len(), 1, "{name:?}");
        assert_eq!(runs[0].by, format!("host-{name}"));
    }
}

#[tokio::test]
async fn two_namespaces_of_one_file_do_not_meet() {
    let directory = Directory::new();
    let store = directory.open().await;
    let other = store.with_namespace("other").expect("has namespaces");
    assert!(Backend::claim(&store, &input("job", 1, "one")).await.expect("answers"));
    assert!(other.claim(&input("job", 1, "two")).await.expect("answers"));
    assert_eq!(other.history("job", 10).await.expect("reads").len(), 1);
    // A view closes nothing; the root closes for all.
    other.close().await.expect("closes nothing");
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 1);
    store.close().await.expect("closes");
    let error = other.history("job", 10).await.expect_err("the root has closed");
    assert!(error.message().contains("not open"), "{error}");
}

/// 2^31 seconds, 2^31 ms, the year 2500, and as far as a date goes.
#[tokio::test]
async fn far_times_are_kept_to_the_millisecond() {
    let directory = Directory::new();
    let store = directory.open().await;
    let slots = [
        1,
        2_147_483_647,
        2_147_483_648_000,
        2_147_483_648_123,
        16_725_225_600_000,
        253_402_300_799_999,
    ];
    for slot in slots {
        let mut claim = claim("job", slot, "token");
        claim.input.lease_ms = Some(4_102_444_800_000);
        let outcome = RunStore::claim(&store, &claim).await.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "{slot}");
        let active = store.active("job").await.expect("reads");
        assert!(active.iter().any(|run| run.slot == slot && run.alive), "{slot}");
        assert!(store.finish("job", slot, "token", Status::Succeeded, None).await.expect("ends"));
    }
    let records = store.history("job", 10).await.expect("reads");
    let kept: Vec<i64> = records.iter().rev().map(|record| record.slot).collect();
    assert_eq!(kept, slots);
}
