//! What is trimmed is gone with all that belongs to it, and its slot stays taken.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits, result};

use crate::server::Ground;

async fn run(store: &impl RunStore, slot: i64) {
    let mut asked = claim("job", slot, "t");
    asked.input.history_size = 3;
    assert_eq!(RunStore::claim(store, &asked).await.expect("answers").kind, OutcomeKind::Won);
    let body = result(slot, "t");
    let ended = store.finish("job", slot, "t", Status::Succeeded, Some(&body)).await;
    assert!(ended.expect("answers"));
}

#[tokio::test]
async fn bodies_go_with_their_records_and_no_slot_opens_again() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        let mut kept = limits("job");
        kept.history_size = 3;
        store.prepare_job(&kept).await.expect("registers");
        for slot in 1..=20 {
            run(&store, slot).await;
        }
        let records = store.history("job", 50).await.expect("answers");
        let outputs: Vec<_> = records.iter().map(|record| record.output.clone()).collect();
        assert_eq!(outputs, ["[20]", "[19]", "[18]"].map(|text| Some(text.to_owned())));
        // The last one trimmed goes with the next change.
        assert!(store.record_missed("job", &missed()).await.expect("answers"));
        assert_eq!(ground.count("PREFIX.*.body.>").await, 3);
        for slot in 1..=20 {
            let outcome = RunStore::claim(&store, &claim("job", slot, "another")).await;
            let kind = outcome.expect("answers").kind;
            let wanted = if slot <= 17 { OutcomeKind::Late } else { OutcomeKind::Done };
            assert_eq!(kind, wanted, "slot {slot}");
        }
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_body_written_in_vain_is_removed() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        let body = result(5, "t");
        RunStore::claim(&store, &claim("job", 5, "holder")).await.expect("answers");
        let ended = store.finish("job", 5, "stranger", Status::Failed, Some(&body)).await;
        assert!(!ended.expect("answers"));
        let ended = store.finish("job", 5, "holder", Status::Succeeded, Some(&body)).await;
        assert!(ended.expect("answers"));
        // A repeat brings its body along once more.
        let again = store.finish("job", 5, "holder", Status::Succeeded, Some(&body)).await;
        assert!(again.expect("answers"));
        store.active("job").await.expect("answers");
        assert_eq!(ground.count("PREFIX.*.body.>").await, 1);
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_forgotten_job_leaves_its_floor_and_nothing_else() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        store.prepare_job(&limits("job")).await.expect("registers");
        for slot in 1..=5 {
            run(&store, slot).await;
        }
        RunStore::claim(&store, &claim("job", 6, "t")).await.expect("answers");
        assert!(!store.forget("job").await.expect("answers"), "a run is unfinished");
        assert!(store.cancel("job", 6, false).await.expect("answers"));
        assert!(store.forget("job").await.expect("answers"));
        assert_eq!(ground.count("PREFIX.*.body.>").await, 0);
        assert_eq!(store.history("job", 10).await.expect("answers"), []);
        let outcome = RunStore::claim(&store, &claim("job", 6, "another")).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Late);
        ground.clean().await;
    }
}

fn missed() -> anarchon::lease::model::MissedRange {
    let (reason, by) = ("no_instance".to_owned(), "me".to_owned());
    anarchon::lease::model::MissedRange { from: 1, to: 2, count: 2, reason, by, at: 0 }
}
