//! Names of every kind: each works, and no two are one.

use std::collections::BTreeSet;

use anarchon::backend::contract::RunStore;
use anarchon_tests::inputs::claim;
use anarchon_tests::words;

use crate::server::Ground;

#[tokio::test]
async fn s08_every_name_has_slots_and_a_hash_tag_of_its_own() {
    let Some(ground) = Ground::shared().await else { return };
    words::names_never_share(&ground.open().await).await;
    let keys: Vec<String> = ground.tell(&["KEYS", &format!("{}*", ground.options.prefix)]).await;
    let tags: BTreeSet<&str> = keys.iter().filter_map(|key| key.split(['{', '}']).nth(1)).collect();
    assert_eq!(tags.len(), words::names().len());
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
