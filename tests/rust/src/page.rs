//! What docs/reference/backends.md says of each store, read back, so that the stores are held to it.

use std::sync::Arc;
use std::time::Duration;

use anarchon::backend::contract::{Backend, Wake, WakeListener};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use tokio::sync::mpsc;

use crate::inputs::claim;

const PAGE: &str = include_str!("../../../docs/reference/backends.md");

/// A store's line in the table.
#[derive(Debug)]
pub struct Row {
    /// It has leases.
    pub leases: bool,
    /// How long it remembers a slot (ms); none for ever.
    pub window_ms: Option<i64>,
    /// It tells the others when a run is given back or has ended.
    pub wakes: bool,
    /// Round trips of a claim that is won, and of one that is lost.
    pub trips: Option<(u64, u64)>,
}

/// The line of a store.
///
/// # Panics
/// If the table has none, or it says what no line may say.
pub fn row(store: &str) -> Row {
    let link = format!("| [{store}]");
    let line = PAGE.lines().find(|line| line.starts_with(&link));
    let line = line.unwrap_or_else(|| panic!("no line begins with {link:?}"));
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let &[_, _url, _shared, leases, remembers, _clock, wakes, trips] = &cells[..] else {
        panic!("the line of {store} has {} cells", cells.len());
    };
    let yes = |cell: &str| match cell {
        "yes" => true,
        "no" => false,
        other => panic!("{store}: {other:?} is neither yes nor no"),
    };
    let window_ms = match remembers {
        "for ever" => None,
        "1 hour, or as told" => Some(3_600_000),
        other => panic!("{store}: it remembers a slot {other:?}"),
    };
    let count = |text: &str| text.trim().parse().expect("a number of round trips");
    let trips = trips.split_once('/').map(|(won, lost)| (count(won), count(lost)));
    Row { leases: yes(leases), window_ms, wakes: yes(wakes), trips }
}

/// The store is as its line says. It must be open; job and slot are the check's own.
///
/// # Panics
/// Where it is not.
pub async fn tells_the_truth(name: &str, store: &dyn Backend) {
    let row = row(name);
    assert_eq!(store.runs().is_some(), row.leases, "{name}: leases");
    assert_eq!(store.dedupe_window_ms(), row.window_ms, "{name}: how long it remembers a slot");
    let Some(runs) = store.runs().filter(|_| row.wakes) else { return };
    let (tell, mut told) = mpsc::unbounded_channel();
    let listener: Arc<WakeListener> = Arc::new(move |job: &str, wake: Wake| {
        // Nobody reads any more once the test has heard enough.
        let _unread = tell.send((job.to_owned(), wake));
    });
    runs.watch(&listener);
    // Who has only just begun to listen may miss the first.
    for slot in 1_000..3_000 {
        runs.claim(&claim("told", slot, "t")).await.expect("answers");
        runs.finish("told", slot, "t", Status::Succeeded, None).await.expect("answers");
        tokio::select! {
            heard = told.recv() => {
                assert_eq!(heard, Some(("told".to_owned(), Wake::Finished)), "{name}");
                return;
            }
            () = sleep_for(&SystemClock, 10) => {}
        }
    }
    panic!("{name}: nobody was told of an end in {:?}", Duration::from_secs(20));
}
