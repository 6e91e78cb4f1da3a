//! Names and numbers of every kind.

use anarchon::backend::contract::Backend;
use anarchon_tests::inputs::input;
use anarchon_tests::words;

use crate::store::Directory;

#[tokio::test]
async fn s08_two_different_names_never_share_a_slot() {
    let directory = Directory::new();
    words::names_never_share(&directory.open().await).await;
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

#[tokio::test]
async fn far_times_are_kept_to_the_millisecond() {
    let directory = Directory::new();
    words::far_times_are_kept(&directory.open().await).await;
}
