//! Runs that have ended, out of the way of claims.
//!
//! Of a run that has ended, claims and trimming look at no more than its slot and its end. So once
//! some have ended, their rows go together into a message of its own, an archive, and the state
//! keeps of them what is looked at. An archive is written before the state that names it, never
//! changed, and removed once the state names none of its runs any more.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::stored::{Row, Rows, Stored, broken, run_of};
use crate::error::{Error, Result};
use crate::lease::model::{Run, RunKey, Status};
use crate::lease::rules::Call;

/// A claim waits for an archive only once there are so many times the runs that go into one: ends
/// write them before that.
const TIMES: usize = 4;

/// An archive as the state names it, as columns: there are up to thousands of runs.
#[derive(Serialize, Deserialize)]
pub(super) struct Archive {
    /// The number of its message.
    at: u64,
    /// The slots, each as its distance from the one before.
    slots: Vec<i64>,
    /// The ends, each as its distance from the slot.
    ends: Vec<i64>,
    /// Which of them were manual, by their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    manual: Vec<usize>,
    /// Where their bodies are, each by how far before the archive; 0 for none, and none at all if
    /// there are no bodies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bodies: Vec<u64>,
}

/// What the state has of an archived run: an ended run of this slot that nobody's token holds.
pub(super) fn brief(key: RunKey, ended_at: i64) -> Run {
    let (status, ended) = (Some(Status::Lost), Some(ended_at));
    Run { at: ended_at, status, ended_at: ended, ..Run::blank(key) }
}

/// The runs that a call looks at more closely than by slot and end.
fn looked_at(stored: &Stored, call: &Call) -> BTreeSet<RunKey> {
    let slot = match call {
        Call::ClaimOnly(input) => input.slot,
        Call::Heartbeat { slot, .. } | Call::Finish { slot, .. } | Call::Release { slot, .. } => {
            *slot
        }
        Call::SaveResult { result, .. } => result.slot,
        // A repeat is known by its token alone.
        Call::ClaimManual(_) => {
            return stored.archived.keys().filter(|key| key.manual).copied().collect();
        }
        Call::Register(_)
        | Call::Claim(_)
        | Call::Cancel { .. }
        | Call::Survey
        | Call::RecordMissed(_)
        | Call::SetPaused(_)
        | Call::Forget => return BTreeSet::new(),
    };
    BTreeSet::from([RunKey::scheduled(slot), RunKey::manual(slot)])
}

/// Whether a call decides who may start: the one kind that somebody waits for.
fn is_claim(call: &Call) -> bool {
    matches!(call, Call::Claim(_) | Call::ClaimOnly(_) | Call::ClaimManual(_))
}

impl Stored {
    /// The archives with what calls look at.
    pub(super) fn wanted_by<'a>(&self, calls: impl Iterator<Item = &'a Call>) -> BTreeSet<u64> {
        if self.archived.is_empty() {
            return BTreeSet::new();
        }
        self.archives_of(calls.flat_map(|call| looked_at(self, call)))
    }

    /// The archives with these runs.
    pub(super) fn archives_of(&self, keys: impl Iterator<Item = RunKey>) -> BTreeSet<u64> {
        keys.filter_map(|key| self.archived.get(&key).copied()).collect()
    }

    /// All archives.
    pub(super) fn all_archives(&self) -> BTreeSet<u64> {
        self.archived.values().copied().collect()
    }

    /// Takes in the rows of an archive, as far as the state still names them.
    pub(super) fn fill(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let rows: Vec<Row> =
            serde_json::from_slice(bytes).map_err(|_| broken("an archive", "a body", bytes))?;
        for run in rows.into_iter().map(run_of) {
            if self.archived.get(&run.key()) == Some(&number) {
                self.state.runs.insert(run.key(), run);
            }
        }
        Ok(())
    }

    /// A run changes or goes: its row is in no archive any more. An archive that nobody names goes.
    pub(super) fn take_out(&mut self, key: RunKey) {
        let Some(number) = self.archived.remove(&key) else { return };
        if !self.is_named(number) {
            self.gone.push(number);
        }
    }

    /// Whether the state names an archive.
    pub(super) fn is_named(&self, number: u64) -> bool {
        self.archived.values().any(|other| *other == number)
    }

    /// The runs that are to be archived now, oldest first: none before there are `together`.
    pub(super) fn to_archive<'a>(
        &self,
        together: usize,
        mut calls: impl Iterator<Item = &'a Call>,
    ) -> Vec<RunKey> {
        if self.state.runs.len().saturating_sub(self.archived.len()) < together {
            return Vec::new();
        }
        let runs = self.state.runs.values();
        let ended = runs.filter(|run| run.status.is_some() && run.ended_at.is_some());
        let keys = ended.map(Run::key).filter(|key| !self.archived.contains_key(key));
        let mut keys: Vec<RunKey> = keys.collect();
        let most = together.saturating_mul(TIMES);
        if keys.len() < if calls.any(is_claim) { most } else { together } {
            return Vec::new();
        }
        keys.truncate(most);
        keys
    }

    /// The text of an archive with these runs.
    pub(super) fn encode_archive(&self, keys: &[RunKey]) -> Result<Vec<u8>> {
        let runs = keys.iter().filter_map(|key| self.state.runs.get(key));
        let rows: Vec<Row> = runs.map(|run| self.row(run)).collect();
        serde_json::to_vec(&rows)
            .map_err(|error| Error::option(format!("an archive cannot be written: {error}")))
    }

    /// Names the archives for the text of the state, and the runs that are in none: both come in
    /// the order of their slots, so one walk sorts them.
    pub(super) fn archives(&self) -> (Vec<Archive>, Vec<&Run>) {
        let mut archived = self.archived.iter().peekable();
        let mut by_number: BTreeMap<u64, Naming> = BTreeMap::new();
        let mut rest = Vec::new();
        for (key, run) in &self.state.runs {
            while archived.next_if(|(archived, _)| *archived < key).is_some() {}
            match archived.next_if(|(archived, _)| *archived == key) {
                Some((_, number)) => {
                    let naming = by_number.entry(*number).or_insert_with(|| Naming::of(*number));
                    naming.add(*key, run.ended_at, self.bodies.get(key).copied());
                }
                None => rest.push(run),
            }
        }
        (by_number.into_values().map(Naming::end).collect(), rest)
    }
}

/// An archive that is being named.
struct Naming {
    archive: Archive,
    /// The slot of the run before.
    before: i64,
}

impl Naming {
    fn of(at: u64) -> Naming {
        let (slots, ends, manual, bodies) = Default::default();
        Naming { archive: Archive { at, slots, ends, manual, bodies }, before: 0 }
    }

    fn add(&mut self, key: RunKey, ended_at: Option<i64>, body: Option<u64>) {
        let Archive { at, slots, ends, manual, bodies } = &mut self.archive;
        if key.manual {
            manual.push(slots.len());
        }
        slots.push(key.slot.wrapping_sub(self.before));
        ends.push(ended_at.unwrap_or(key.slot).wrapping_sub(key.slot));
        bodies.push(body.map_or(0, |body| at.wrapping_sub(body)));
        self.before = key.slot;
    }

    fn end(mut self) -> Archive {
        // Without any body the list says nothing.
        if self.archive.bodies.iter().all(|before| *before == 0) {
            self.archive.bodies.clear();
        }
        self.archive
    }
}

impl Rows {
    /// Takes in what the state says of an archive.
    pub(super) fn read_archive(&mut self, archive: Archive) {
        let mut slot = 0_i64;
        let Archive { at, slots, ends, manual, bodies } = archive;
        for (place, (since, end)) in slots.into_iter().zip(ends).enumerate() {
            slot = slot.wrapping_add(since);
            let key = RunKey { slot, manual: manual.binary_search(&place).is_ok() };
            self.runs.push((key, brief(key, slot.wrapping_add(end))));
            self.archived.push((key, at));
            if let Some(before) = bodies.get(place).filter(|before| **before != 0) {
                self.bodies.push((key, at.wrapping_sub(*before)));
            }
        }
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
