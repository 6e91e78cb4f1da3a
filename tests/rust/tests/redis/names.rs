//! Names of every kind: each works, and no two are one.

use std::collections::BTreeSet;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::lease::model::Status;

use crate::server::{Ground, claim, limits};

fn names() -> Vec<String> {
    let plain = [
        "a:b",
        "a b",
        "a.b",
        ".a",
        "a.",
        "a..b",
        "a*",
        "a>",
        "order",
        "x'; drop table claim;--",
        "Job",
        "job",
        "job ",
        " job",
        "j\u{f3}b",
        "jo\u{301}b",
        "\u{1f600}",
        "\u{1f601}",
        "a",
        "{a}",
        "a}",
        "{",
        "%41",
        "a%3Ab",
        "a/b",
        "[a]",
        "a?",
        "\\",
        "token:x",
        "run:1",
    ];
    let mut names: Vec<String> = plain.iter().map(|name| (*name).to_owned()).collect();
    names.extend([64, 65, 66, 254, 255].map(|length| "n".repeat(length)));
    names
}

#[tokio::test]
async fn every_name_has_slots_of_its_own() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    let names = names();
    let all: Vec<_> = names.iter().map(|name| limits(name)).collect();
    assert!(store.prepare_jobs(&all).await.iter().all(Result::is_ok));
    for (number, name) in names.iter().enumerate() {
        let outcome = RunStore::claim(&store, &claim(name, 60_000, &format!("{number}"))).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won, "{name:?}");
    }
    for (number, name) in names.iter().enumerate() {
        let ended = store.finish(name, 60_000, &number.to_string(), Status::Succeeded, None).await;
        assert!(ended.expect("answers"), "{name:?}");
        let records = store.history(name, 10).await.expect("answers");
        assert_eq!(records.len(), 1, "{name:?}");
        assert_eq!(records[0].job, *name);
    }
    let keys: Vec<String> = ground.tell(&["KEYS", &format!("{}*", ground.options.prefix)]).await;
    let tags: BTreeSet<&str> = keys.iter().filter_map(|key| key.split(['{', '}']).nth(1)).collect();
    assert_eq!(tags.len(), names.len());
    ground.clean().await;
}

#[tokio::test]
async fn tokens_and_instances_may_hold_spaces_and_line_ends() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    let mut asked = claim("job", 60_000, " a token\nof two lines ");
    asked.input.instance_id = " host\n- 12 m ".to_owned();
    RunStore::claim(&store, &asked).await.expect("answers");
    let runs = store.active("job").await.expect("answers");
    assert_eq!(runs[0].by, asked.input.instance_id);
    assert!(store.heartbeat("job", 60_000, &asked.input.token, 1_000).await.expect("answers"));
    assert!(!store.heartbeat("job", 60_000, "a token", 1_000).await.expect("answers"));
    ground.clean().await;
}
