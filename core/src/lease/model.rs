//! What is stored for a job, and what a call answers.
//!
//! All times are integer milliseconds since the Unix epoch, on the store's clock.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The identity of a run within its job: the slot, and whether a person asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The scheduled instant (ms).
    pub slot: i64,
    /// Asked for by hand; a scheduled run of the same slot is another run.
    pub manual: bool,
}

impl RunKey {
    /// The scheduled run of a slot.
    pub const fn scheduled(slot: i64) -> RunKey {
        RunKey { slot, manual: false }
    }

    /// The manual run of a slot.
    pub const fn manual(slot: i64) -> RunKey {
        RunKey { slot, manual: true }
    }
}

/// How a run ended, as stored; and the two words that readers see for one that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The handler returned.
    Succeeded,
    /// The handler threw.
    Failed,
    /// A try took longer than `timeoutMs`.
    TimedOut,
    /// Cancelled by a person, or stopped where nobody may take over.
    Cancelled,
    /// Not started: another run of the job was unfinished.
    Skipped,
    /// The lease ended and nobody may take the run over.
    Lost,
    /// Not ended, the lease is alive (never stored).
    Running,
    /// Not ended, the lease is over and the run may be taken over (never stored).
    Stalled,
    /// Claimed on a store without leases, and no result is known (never stored).
    Unfinished,
}

impl Status {
    /// The text that is stored and shown, the same in every language.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Cancelled => "cancelled",
            Status::Skipped => "skipped",
            Status::Lost => "lost",
            Status::Running => "running",
            Status::Stalled => "stalled",
            Status::Unfinished => "unfinished",
        }
    }

    /// The status with this text.
    pub fn parse(text: &str) -> Option<Status> {
        const ALL: [Status; 9] = [
            Status::Succeeded,
            Status::Failed,
            Status::TimedOut,
            Status::Cancelled,
            Status::Skipped,
            Status::Lost,
            Status::Running,
            Status::Stalled,
            Status::Unfinished,
        ];
        ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is stored of a run, without the bodies (error, output) that decide nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scheduled instant (ms).
    pub slot: i64,
    /// Asked for by hand.
    pub manual: bool,
    /// The token of the holder: whoever knows it holds the run.
    pub token: String,
    /// The instance that claimed it last: a hint for people and sweepers, never decides anything.
    pub by: String,
    /// When it was last granted (ms).
    pub at: i64,
    /// Grants of this run so far: 1, 2, 3 …; 0 for a slot that was skipped without a grant.
    pub attempt: i64,
    /// The fencing number of the last grant.
    pub fence: i64,
    /// Leases of this run that ended without a release.
    pub crashes: i64,
    /// When the lease ends (ms).
    pub lease_until: i64,
    /// The length of the lease (ms); 0 for a claim on a store used without leases.
    pub lease_ms: i64,
    /// How many crashes others may take over.
    pub max_takeovers: i64,
    /// The holder gave the lease back.
    pub released: bool,
    /// How it ended, if it has.
    pub status: Option<Status>,
    /// When it ended (ms), if it has.
    pub ended_at: Option<i64>,
}

impl Run {
    /// A run of which nothing is known but its identity: nobody's, without a lease and without an end.
    pub const fn blank(key: RunKey) -> Run {
        Run {
            slot: key.slot,
            manual: key.manual,
            token: String::new(),
            by: String::new(),
            at: 0,
            attempt: 0,
            fence: 0,
            crashes: 0,
            lease_until: 0,
            lease_ms: 0,
            max_takeovers: 0,
            released: false,
            status: None,
            ended_at: None,
        }
    }

    /// The identity of the run.
    pub const fn key(&self) -> RunKey {
        RunKey { slot: self.slot, manual: self.manual }
    }

    /// A run under a lease that has not ended.
    pub const fn is_unfinished(&self) -> bool {
        self.status.is_none() && self.lease_ms > 0
    }

    /// The lease is alive: the holder may work.
    pub const fn is_alive(&self, now: i64) -> bool {
        self.is_unfinished() && !self.released && self.lease_until > now
    }

    /// What is left of the lease (ms), 0 if it is over or was given back.
    pub const fn left_ms(&self, now: i64) -> i64 {
        if self.is_alive(now) { self.lease_until - now } else { 0 }
    }

    /// Whether another instance may take the run over once its lease is over.
    pub const fn may_be_taken_over(&self) -> bool {
        !self.manual && self.crashes + (if self.released { 0 } else { 1 }) <= self.max_takeovers
    }

    /// Nobody may take it over and its lease is over: it is lost, written down or not.
    pub const fn is_lost(&self, now: i64) -> bool {
        self.is_unfinished() && !self.is_alive(now) && !self.may_be_taken_over()
    }

    /// The status that every reader sees at `now`.
    pub const fn shown_status(&self, now: i64) -> Status {
        match self.status {
            Some(status) => status,
            None if self.lease_ms == 0 => Status::Unfinished,
            None if self.is_alive(now) => Status::Running,
            None if self.is_lost(now) => Status::Lost,
            None => Status::Stalled,
        }
    }

    /// When it ended, as every reader sees it: a lost run ended with its lease.
    pub const fn shown_ended_at(&self, now: i64) -> Option<i64> {
        match self.ended_at {
            Some(at) => Some(at),
            None if self.is_lost(now) => Some(self.lease_until),
            None => None,
        }
    }
}

/// Since when, by whom and why a job is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Since when (ms, the store's clock).
    pub since: i64,
    /// The instance that paused it.
    pub by: String,
    /// Why, in the words of whoever paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Slots that nobody ran, reported once for the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissedRange {
    /// The first missed slot (ms).
    pub from: i64,
    /// The last missed slot (ms), inclusive.
    pub to: i64,
    /// How many slots were missed; 0 if the reporter did not know the schedule.
    pub count: u64,
    /// Why: `no_instance`, `no_place`, `store_down`, `too_late`, `paused`, `dropped`.
    pub reason: String,
    /// The instance that reported it.
    pub by: String,
    /// When it was reported (ms, the store's clock).
    pub at: i64,
}

/// How many missed ranges a job keeps.
pub const MISSED_KEPT: usize = 20;

/// The part of a job's state that is not a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobHeader {
    /// The fingerprint of the definition; empty before the first registration.
    pub schedule: String,
    /// The fingerprint before that one.
    pub schedule_prev: String,
    /// The version of the time-zone tables of whoever registered last.
    pub zone_tables: String,
    /// When this definition was first registered (ms); nothing before it was ever missed.
    pub since: i64,
    /// The greatest scheduled slot whose record has been trimmed; 0 if none was.
    pub floor: i64,
    /// Plus one at every grant: the fencing number.
    pub fence: i64,
    /// Trimming leaves every record younger than this (ms).
    pub keep_ms: i64,
    /// Trimming leaves so many of the newest scheduled records …
    pub keep_slots: i64,
    /// … that are younger than this (ms).
    pub keep_window_ms: i64,
    /// How many ended records are kept.
    pub history_size: i64,
    /// How long ended records are kept (ms), if they age at all.
    pub history_ttl_ms: Option<i64>,
    /// Set while no new run may be started.
    pub paused: Option<Paused>,
    /// The newest reported ranges, oldest first.
    pub missed: Vec<MissedRange>,
}

/// Everything that is decided upon: a job's header and its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobState {
    /// All but the runs.
    pub header: JobHeader,
    /// The unfinished runs and the ended ones that have not been trimmed.
    pub runs: BTreeMap<RunKey, Run>,
}

impl JobState {
    /// The runs that have not ended, oldest slot first.
    pub fn unfinished(&self) -> impl Iterator<Item = &Run> {
        self.runs.values().filter(|run| run.is_unfinished())
    }
}
