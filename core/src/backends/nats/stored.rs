//! How the state of a job is written: one JSON text per job.
//!
//! A claim reads and writes all of it, so what no claim looks at lies elsewhere: the rows of most
//! ended runs, many together, in messages of their own ([`super::archive`]).

use std::collections::BTreeMap;

use super::archive::Archive;

use serde::{Deserialize, Serialize};

use crate::backend::contract::StoredResult;
use crate::error::{Error, Result};
use crate::lease::model::{JobHeader, JobState, Run, RunKey, Status};

/// A job as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stored {
    pub(super) state: JobState,
    /// Where the bodies of runs are: the numbers of their messages.
    pub(super) bodies: BTreeMap<RunKey, u64>,
    /// Runs whose rows lie in archives: the numbers of those messages. Until an archive has been
    /// read, the state has of its runs only what [`super::archive::brief`] says.
    pub(super) archived: BTreeMap<RunKey, u64>,
    /// Bodies and archives that no run names any more and that are still to be removed.
    pub(super) gone: Vec<u64>,
    /// Drawn anew with each writing: whose writing it was that got through.
    pub(super) stamp: String,
}

/// The text, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    stamp: &'a str,
    header: &'a JobHeader,
    runs: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    archives: Vec<Archive>,
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    gone: &'a [u64],
}

/// The text, as it is read.
#[derive(Deserialize)]
struct Document {
    stamp: String,
    header: JobHeader,
    runs: Vec<Row>,
    #[serde(default)]
    archives: Vec<Archive>,
    #[serde(default)]
    gone: Vec<u64>,
}

/// What is read of a text, before it is put in order: a map that is made of all its entries at once
/// takes a fraction of the time.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) runs: Vec<(RunKey, Run)>,
    pub(super) bodies: Vec<(RunKey, u64)>,
    pub(super) archived: Vec<(RunKey, u64)>,
}

/// A run as a list, in this order: a job has up to thousands of them, and names would be most of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Row(
    i64,            // slot
    bool,           // manual
    String,         // token
    String,         // by
    i64,            // at
    i64,            // attempt
    i64,            // fence
    i64,            // crashes
    i64,            // lease_until
    i64,            // lease_ms
    i64,            // max_takeovers
    bool,           // released
    Option<Status>, // status
    Option<i64>,    // ended_at
    u64,            // the number of the message with its body; 0 for none
);

/// What a run takes beside the name of its instance, at most (bytes): numbers of 64 bits, a token.
const RUN_BYTES: usize = 270;

/// What a state takes beside its runs, at most, with texts as schedulers write them (bytes).
const HEADER_BYTES: usize = 8 * 1024;

/// About how many bytes so many records take, with names of instances of 100 bytes.
pub(super) fn estimate(records: usize) -> usize {
    HEADER_BYTES.saturating_add(records.saturating_mul(RUN_BYTES + 100))
}

/// How many records fit into so many bytes.
pub(super) fn fitting(bytes: usize) -> usize {
    bytes.saturating_sub(HEADER_BYTES) / (RUN_BYTES + 100)
}

impl Stored {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let (archives, rest) = self.archives();
        let runs: Vec<Row> = rest.into_iter().map(|run| self.row(run)).collect();
        let about = 1_024 + runs.len() * 200 + self.archived.len() * 20;
        let (stamp, header, gone) = (&self.stamp, &self.state.header, &self.gone);
        let written = Written { stamp, header, runs, archives, gone };
        let mut text = Vec::with_capacity(about);
        serde_json::to_writer(&mut text, &written)
            .map_err(|error| Error::option(format!("a job's state cannot be written: {error}")))?;
        Ok(text)
    }

    pub(super) fn row(&self, run: &Run) -> Row {
        Row(
            run.slot,
            run.manual,
            run.token.clone(),
            run.by.clone(),
            run.at,
            run.attempt,
            run.fence,
            run.crashes,
            run.lease_until,
            run.lease_ms,
            run.max_takeovers,
            run.released,
            run.status,
            run.ended_at,
            self.bodies.get(&run.key()).copied().unwrap_or(0),
        )
    }

    pub(super) fn decode(subject: &str, bytes: &[u8]) -> Result<Stored> {
        let document: Document =
            serde_json::from_slice(bytes).map_err(|_| broken("a state", subject, bytes))?;
        let mut rows = Rows::default();
        for archive in document.archives {
            rows.read_archive(archive);
        }
        for row in document.runs {
            let body = row.14;
            let run = run_of(row);
            if body != 0 {
                rows.bodies.push((run.key(), body));
            }
            rows.runs.push((run.key(), run));
        }
        let runs = rows.runs.into_iter().collect();
        Ok(Stored {
            state: JobState { header: document.header, runs },
            bodies: rows.bodies.into_iter().collect(),
            archived: rows.archived.into_iter().collect(),
            gone: document.gone,
            stamp: document.stamp,
        })
    }
}

pub(super) fn run_of(row: Row) -> Run {
    Run {
        slot: row.0,
        manual: row.1,
        token: row.2,
        by: row.3,
        at: row.4,
        attempt: row.5,
        fence: row.6,
        crashes: row.7,
        lease_until: row.8,
        lease_ms: row.9,
        max_takeovers: row.10,
        released: row.11,
        status: row.12,
        ended_at: row.13,
    }
}

pub(super) fn encode_body(result: &StoredResult) -> Result<Vec<u8>> {
    serde_json::to_vec(result)
        .map_err(|error| Error::option(format!("the result cannot be written as JSON: {error}")))
}

pub(super) fn decode_body(bytes: &[u8]) -> Result<StoredResult> {
    serde_json::from_slice(bytes).map_err(|_| broken("a result", "a body", bytes))
}

pub(super) fn broken(what: &str, subject: &str, bytes: &[u8]) -> Error {
    let start: String = String::from_utf8_lossy(bytes).chars().take(80).collect();
    Error::unavailable(format!(
        "{what} stored in NATS ({subject}) cannot be read: it begins with {start:?}. Was it \
         written by something else under the same prefix?"
    ))
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
