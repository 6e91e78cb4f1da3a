//! The conformance suite: does a store keep what the contract promises?
//!
//! A table of named cases, run against any [`Backend`], built in or the user's own. Each case uses
//! jobs of its own, so a store need not be empty and is not emptied. Cases about leases are skipped
//! on a backend without [`Backend::runs`], and so are those about optional members that are not
//! there.
//!
//! A store cannot be told what time it is. So leases are either an hour long, and certainly alive,
//! or a millisecond, and then the suite waits until the store's own clock is past them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use anarchon::backend::contract::Backend;
//! use anarchon::backends::memory::MemoryBackend;
//! use anarchon::clock::SystemClock;
//! use anarchon::testing::conformance::{CheckOptions, check_backend};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let store: Arc<dyn Backend> = Arc::new(MemoryBackend::new(Arc::new(SystemClock)));
//! // Every call opens one more client of the same store.
//! let open = move || -> anarchon::testing::conformance::Opening {
//!     let client = store.clone();
//!     Box::pin(async move { Ok(client) })
//! };
//! let options = CheckOptions { histories: 3, rounds: 5, ..CheckOptions::default() };
//! let report = check_backend(open, &options).await;
//! assert!(report.is_passed(), "{report}");
//! # });
//! ```

mod bed;
mod claims;
mod leases;
mod random;
mod records;
mod script;
mod scripts;
mod step;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::backend::contract::Backend;
use crate::clock::{SystemClock, sleep_for};
use crate::error::Result;
use bed::Bed;

/// A client of the store under test being opened.
pub type Opening = BoxFuture<'static, Result<Arc<dyn Backend>>>;

/// How thoroughly a store is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Clients that race with each other; at least 2.
    pub clients: usize,
    /// How often each race is run.
    pub rounds: usize,
    /// How many random histories are compared with the reference.
    pub histories: usize,
    /// How many calls a random history has.
    pub steps: usize,
    /// What the random histories are drawn from; a report names it.
    pub seed: u64,
    /// How long a case may take (ms).
    pub case_timeout_ms: i64,
    /// Require what a backend may leave out: every field of an answer, bounded records, and slots
    /// refused that lie too far ahead. The stores that come with the library are held to it.
    pub complete: bool,
    /// Run only cases whose name contains one of these.
    pub only: Vec<String>,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions {
            clients: 4,
            rounds: 20,
            histories: 20,
            steps: 30,
            seed: 1,
            case_timeout_ms: 60_000,
            complete: false,
            only: Vec::new(),
        }
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "message", rename_all = "snake_case")]
pub enum CaseStatus {
    /// The store keeps what the case is about.
    Passed,
    /// It does not: what happened, in words.
    Failed(String),
    /// The case does not apply: why.
    Skipped(String),
}

/// A case and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseResult {
    /// The name of the case: a sentence that is true of a store that passes.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub status: CaseStatus,
}

/// All cases and how they ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The name of the backend.
    pub backend: String,
    /// The cases, in the order of the table.
    pub cases: Vec<CaseResult>,
}

impl Report {
    /// Whether no case failed.
    pub fn is_passed(&self) -> bool {
        self.failed().is_empty()
    }

    /// The cases that failed.
    pub fn failed(&self) -> Vec<&CaseResult> {
        let failed = |case: &&CaseResult| matches!(case.status, CaseStatus::Failed(_));
        self.cases.iter().filter(failed).collect()
    }

    fn count(&self, wanted: impl Fn(&CaseStatus) -> bool) -> usize {
        self.cases.iter().filter(|case| wanted(&case.status)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            match &case.status {
                CaseStatus::Passed => {}
                CaseStatus::Failed(why) => writeln!(f, "FAILED  {}\n{why}", case.name)?,
                CaseStatus::Skipped(why) => writeln!(f, "skipped {}: {why}", case.name)?,
            }
        }
        let passed = self.count(|status| *status == CaseStatus::Passed);
        let skipped = self.count(|status| matches!(status, CaseStatus::Skipped(_)));
        let failed = self.failed().len();
        write!(f, "{}: {passed} passed, {failed} failed, {skipped} skipped", self.backend)
    }
}

/// Why a case stopped before its end.
enum Halt {
    Failed(String),
    Skipped(String),
}

impl From<crate::error::Error> for Halt {
    fn from(error: crate::error::Error) -> Halt {
        Halt::Failed(format!("a call was answered with an error: {error}"))
    }
}

type CaseEnd = std::result::Result<(), Halt>;

/// Fails the case unless `holds`.
fn demand(holds: bool, what: impl FnOnce() -> String) -> CaseEnd {
    if holds { Ok(()) } else { Err(Halt::Failed(what())) }
}

/// One case of the table.
struct Case {
    /// A sentence that is true of a store that passes.
    name: &'static str,
    /// Whether it is about leases.
    leases: bool,
    run: fn(Bed) -> BoxFuture<'static, CaseEnd>,
}

/// A line of the table for an async function.
macro_rules! case {
    ($leases:expr, $name:expr, $run:path) => {
        $crate::testing::conformance::Case {
            name: $name,
            leases: $leases,
            run: |bed| Box::pin($run(bed)),
        }
    };
}
use case;

fn table() -> Vec<Case> {
    let mut cases = claims::cases();
    cases.extend(records::cases());
    cases.extend(leases::cases());
    cases.extend(scripts::cases());
    cases.extend(random::cases());
    cases
}

/// The names of all cases, in the order in which they are run.
pub fn case_names() -> Vec<&'static str> {
    table().iter().map(|case| case.name).collect()
}

/// Runs the table against the store that `open` opens a client of.
///
/// Every call of `open` must give one more client of the *same* store; the suite initialises the
/// clients and closes them.
pub async fn check_backend<F>(open: F, options: &CheckOptions) -> Report
where
    F: Fn() -> Opening,
{
    let mut clients: Vec<Arc<dyn Backend>> = Vec::new();
    let mut unopened = None;
    for _ in 0..options.clients.max(2) {
        match open_client(&open).await {
            Ok(client) => clients.push(client),
            Err(error) => unopened = Some(error),
        }
    }
    let backend = clients.first().map_or_else(String::new, |client| client.name());
    if let Some(error) = unopened {
        let status = CaseStatus::Failed(format!("a client could not be opened: {error}"));
        let cases = vec![CaseResult { name: "opening".to_owned(), status }];
        return Report { backend, cases };
    }
    let mut cases = Vec::new();
    for (number, case) in table().into_iter().enumerate() {
        let wanted = |part: &String| case.name.contains(part.as_str());
        if options.only.is_empty() || options.only.iter().any(wanted) {
            let bed = Bed::new(clients.clone(), options, number);
            let status = run_case(&case, bed, options).await;
            cases.push(CaseResult { name: case.name.to_owned(), status });
        }
    }
    let status = close_twice(clients).await;
    cases.push(CaseResult { name: CLOSING.to_owned(), status });
    Report { backend, cases }
}

/// The one case that must be the last.
const CLOSING: &str = "closing can be repeated";

async fn close_twice(clients: Vec<Arc<dyn Backend>>) -> CaseStatus {
    for client in clients.iter().chain(&clients) {
        if let Err(error) = client.close().await {
            return CaseStatus::Failed(format!("close was answered with an error: {error}"));
        }
    }
    CaseStatus::Passed
}

async fn open_client<F: Fn() -> Opening>(open: &F) -> Result<Arc<dyn Backend>> {
    let client = open().await?;
    client.init().await?;
    Ok(client)
}

async fn run_case(case: &Case, bed: Bed, options: &CheckOptions) -> CaseStatus {
    if case.leases && bed.clients[0].runs().is_none() {
        return CaseStatus::Skipped("the backend has no leases (`runs` is not there)".to_owned());
    }
    let end = tokio::select! {
        end = (case.run)(bed) => end,
        () = sleep_for(&SystemClock, options.case_timeout_ms) => Err(Halt::Failed(format!(
            "the case did not end within {} ms: a call never answers, or a lease never ends",
            options.case_timeout_ms
        ))),
    };
    match end {
        Ok(()) => CaseStatus::Passed,
        Err(Halt::Failed(why)) => CaseStatus::Failed(why),
        Err(Halt::Skipped(why)) => CaseStatus::Skipped(why),
    }
}
