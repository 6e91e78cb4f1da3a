//! What became of the cases of the contract, for the table at the end of `make test`.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::testing::conformance::Report;
use serde_json::json;

/// Prints a report, and leaves it where `.make/suites.py` collects them, if that runs the test.
/// `store` is the name of the row: the store, and by what it was reached.
///
/// # Panics
/// If the file cannot be written.
pub fn tally(store: &str, report: &Report) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    println!("{report}");
    let Some(folder) = std::env::var_os("ANARCHON_TEST_TALLY") else { return };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("rust-{}-{number}.json", std::process::id());
    let told = json!({ "language": "rust", "store": store, "cases": report.cases });
    std::fs::write(Path::new(&folder).join(name), told.to_string()).expect("a file can be written");
}
