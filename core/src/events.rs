//! What a scheduler tells: nothing that happens to a slot is silent.

use serde::Serialize;

use crate::backend::contract::RunRecord;
use crate::error::Error;
use crate::lease::model::{MissedRange, RunKey};

/// Why slots were missed; the same words in every language and in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedReason {
    /// No instance was there to ask.
    NoInstance,
    /// All places of the instance were taken.
    NoPlace,
    /// The store did not answer.
    StoreDown,
    /// The store said that it was too late.
    TooLate,
    /// The job was paused.
    Paused,
    /// A catch-up that left its window or its limit.
    Dropped,
}

impl MissedReason {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            MissedReason::NoInstance => "no_instance",
            MissedReason::NoPlace => "no_place",
            MissedReason::StoreDown => "store_down",
            MissedReason::TooLate => "too_late",
            MissedReason::Paused => "paused",
            MissedReason::Dropped => "dropped",
        }
    }
}

/// What started a run; the same words in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Its slot had come.
    Slot,
    /// The slot had been missed.
    CatchUp,
    /// The holder before was gone.
    Takeover,
    /// A person asked.
    Manual,
}

impl Trigger {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trigger::Slot => "slot",
            Trigger::CatchUp => "catch_up",
            Trigger::Takeover => "takeover",
            Trigger::Manual => "manual",
        }
    }
}

/// Which run an event is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The job's name.
    pub job: String,
    /// The slot (ms).
    pub slot: i64,
    /// Asked for by hand.
    pub manual: bool,
    /// The instance that tells.
    pub instance_id: String,
    /// Grants of the run.
    pub attempt: i64,
    /// The fencing number of the grant.
    pub fence: i64,
    /// What started it.
    pub trigger: Trigger,
}

impl RunInfo {
    /// The identity of the run within its job.
    pub fn key(&self) -> RunKey {
        RunKey { slot: self.slot, manual: self.manual }
    }
}

/// One thing that happened. Serialized: the fields of the payload in camelCase, without `error`
/// objects, which the bindings pass on as the objects they are.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// A run was granted to this instance.
    Won(RunInfo),
    /// Its handler was entered.
    Started(RunInfo),
    /// It ended here.
    #[serde(rename_all = "camelCase")]
    Finished {
        /// The record as it was stored.
        record: Box<RunRecord>,
        /// What the handler threw, as the object it is.
        #[serde(skip)]
        error: Option<Error>,
    },
    /// Slots that nobody ran.
    Missed(MissedEvent),
    /// A slot was skipped, another run was in the way.
    #[serde(rename_all = "camelCase")]
    Overlap {
        /// The job's name.
        job: String,
        /// The slot that was skipped (ms).
        slot: i64,
        /// The slot of the run in the way (ms).
        other_slot: Option<i64>,
        /// Whether that one is manual.
        other_manual: Option<bool>,
        /// Who holds it.
        by: Option<String>,
    },
    /// A run of another instance was taken over.
    Takeover(RunInfo),
    /// A run was lost to another instance, or its lease could not be kept.
    LeaseLost(RunInfo),
    /// The clock of this machine and the store's are apart.
    #[serde(rename_all = "camelCase")]
    Skew {
        /// Ours minus the store's (ms).
        offset_ms: i64,
        /// The job that showed it, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<String>,
    },
    /// Replicas disagree about a job's definition, or about the time-zone tables.
    #[serde(rename_all = "camelCase")]
    DefinitionConflict {
        /// The job's name.
        job: String,
        /// What this instance runs by.
        ours: String,
        /// What the store says.
        stored: String,
    },
    /// A run is far over its time.
    #[serde(rename_all = "camelCase")]
    Overdue {
        /// The run.
        #[serde(flatten)]
        run: RunInfo,
        /// For how long the handler has been running (ms).
        running_ms: i64,
    },
    /// The store does not answer.
    #[serde(rename_all = "camelCase")]
    StoreDown {
        /// What the last error said.
        message: String,
    },
    /// The store answers again.
    #[serde(rename_all = "camelCase")]
    StoreUp {
        /// For how long it had not answered (ms).
        down_ms: i64,
    },
    /// An error in the background.
    #[serde(rename_all = "camelCase")]
    Error {
        /// The error, as the object it is.
        #[serde(skip)]
        error: Error,
        /// The job it concerns, if it concerns one.
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<String>,
    },
}

/// Slots that nobody ran: a range and how many there are in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissedEvent {
    /// The job's name.
    pub job: String,
    /// The range.
    #[serde(flatten)]
    pub range: MissedRange,
}

impl Event {
    /// All event names, in the order of the documentation.
    pub const NAMES: [&'static str; 13] = [
        "won",
        "started",
        "finished",
        "missed",
        "overlap",
        "takeover",
        "leaseLost",
        "skew",
        "definitionConflict",
        "overdue",
        "storeDown",
        "storeUp",
        "error",
    ];

    /// The name under which listeners know it (camelCase; Python's is the snake_case of it).
    pub const fn name(&self) -> &'static str {
        match self {
            Event::Won(_) => "won",
            Event::Started(_) => "started",
            Event::Finished { .. } => "finished",
            Event::Missed(_) => "missed",
            Event::Overlap { .. } => "overlap",
            Event::Takeover(_) => "takeover",
            Event::LeaseLost(_) => "leaseLost",
            Event::Skew { .. } => "skew",
            Event::DefinitionConflict { .. } => "definitionConflict",
            Event::Overdue { .. } => "overdue",
            Event::StoreDown { .. } => "storeDown",
            Event::StoreUp { .. } => "storeUp",
            Event::Error { .. } => "error",
        }
    }

    /// The thrown object that travels with the event, if one does.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Event::Finished { error, .. } => error.as_ref(),
            Event::Error { error, .. } => Some(error),
            _ => None,
        }
    }
}
