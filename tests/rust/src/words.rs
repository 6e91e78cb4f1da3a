//! Names and times of every kind, on any store with leases.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::lease::model::Status;

use crate::inputs::{claim, limits};

/// Names that some store takes for one another, or cannot keep.
pub fn names() -> Vec<String> {
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
        "\\'",
        "{a,b}",
        "{a}",
        "a}",
        "{",
        "%41",
        "a%3Ab",
        "a/b",
        "a.",
        "[a]",
        "a?",
        "token:x",
        "run:1",
        "NULL",
        "null",
        "0",
    ]
    .map(str::to_owned)
    .into();
    for length in [64, 65, 66, 254, 255] {
        names.push("n".repeat(length));
    }
    names.push("\u{1f600}".repeat(63));
    names
}

fn runs(store: &dyn Backend) -> &dyn RunStore {
    store.runs().expect("the store has leases")
}

/// Each name has its own slot, one by one and together.
///
/// # Panics
/// If two names share something.
pub async fn names_never_share(store: &dyn Backend) {
    let names = names();
    for name in &names {
        store.prepare_job(&limits(name)).await.expect("registers");
        let outcome = runs(store).claim(&claim(name, 1_000, name)).await.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "{name:?}");
    }
    let claims: Vec<_> = names.iter().map(|name| claim(name, 2_000, name)).collect();
    for (answer, name) in runs(store).claim_all(&claims).await.into_iter().zip(&names) {
        assert_eq!(answer.expect("answers").kind, OutcomeKind::Won, "{name:?}");
    }
    for name in &names {
        let records = store.history(name, 10).await.expect("reads");
        let by: Vec<&str> = records.iter().map(|record| record.by.as_str()).collect();
        assert_eq!(by, [format!("host-{name}"), format!("host-{name}")], "{name:?}");
        assert_eq!(&records[0].job, name);
    }
    for (survey, name) in runs(store).survey_all(&names).await.into_iter().zip(&names) {
        assert_eq!(survey.expect("answers").slots, [1_000, 2_000], "{name:?}");
    }
}

/// 2^31 seconds, 2^31 ms, the year 2500, and as far as a date goes.
///
/// # Panics
/// If a time is not kept to the millisecond.
pub async fn far_times_are_kept(store: &dyn Backend) {
    let slots = [
        1,
        2_147_483_647,
        2_147_483_648_000,
        2_147_483_648_123,
        16_725_225_600_000,
        253_402_300_799_999,
    ];
    for slot in slots {
        let mut claim = claim("far", slot, "token");
        claim.input.lease_ms = Some(4_102_444_800_000);
        let outcome = runs(store).claim(&claim).await.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Won, "{slot}");
        let active = runs(store).active("far").await.expect("reads");
        assert!(active.iter().any(|run| run.slot == slot && run.alive), "{slot}");
        let ended = runs(store).finish("far", slot, "token", Status::Succeeded, None).await;
        assert!(ended.expect("ends"), "{slot}");
    }
    let records = store.history("far", 10).await.expect("reads");
    let kept: Vec<i64> = records.iter().rev().map(|record| record.slot).collect();
    assert_eq!(kept, slots);
}
