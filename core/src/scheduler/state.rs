//! How a job of a started scheduler stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backend::contract::JobLimits;
use crate::error::Error;
use crate::mends::{self, Mend};
use crate::schedule::Schedule;
use crate::scheduler::context::Handler;
use crate::scheduler::manual::ManualAsk;
use crate::scheduler::missed::Missed;
use crate::scheduler::options::JobSettings;

/// How far a job has come with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The store does not know it yet.
    Registering,
    /// It must be surveyed before anything of it is claimed.
    Surveying,
    /// Its slots are claimed as they fall due.
    Live,
    /// The store will never take it.
    Refused,
}

/// What a job is, apart from how it stands.
#[derive(Clone)]
pub(super) struct JobSpec {
    pub(super) name: Arc<str>,
    pub(super) schedule: Schedule,
    pub(super) timezone: String,
    pub(super) settings: JobSettings,
    pub(super) handler: Arc<dyn Handler>,
}

/// A job of a started scheduler.
pub(super) struct Job {
    pub(super) name: Arc<str>,
    pub(super) spec: Arc<JobSpec>,
    pub(super) limits: JobLimits,
    pub(super) phase: Phase,
    pub(super) register_failures: u32,
    /// Whether it has been live in this start.
    pub(super) announced: bool,
    /// Slots up to here have been asked for, or are the survey's business.
    pub(super) cursor: i64,
    /// The slot that the timer waits for.
    pub(super) next: Option<i64>,
    pub(super) asks: BTreeMap<i64, Ask>,
    /// Tokens that were sent and may still be answered, or may still arrive.
    pub(super) tokens: BTreeMap<i64, String>,
    /// Takeovers and catch-ups on their way.
    pub(super) asked: BTreeSet<i64>,
    pub(super) sweep: Sweep,
    pub(super) missed: Missed,
    /// Missed slots that are to be made up for, oldest first.
    pub(super) catch_up: BTreeSet<i64>,
    /// Handlers that ignore their cancellation: until they end nothing of the job is taken.
    pub(super) abandoned: usize,
    /// A stored definition that has been told about.
    pub(super) conflict_told: String,
    /// Manual runs that wait until the store knows the job.
    pub(super) manual: Vec<ManualAsk>,
}

/// The surveys of a job.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) in_flight: bool,
    /// Something happened while it was in flight: its answer may be too old.
    pub(super) again: bool,
    pub(super) last: Option<i64>,
    pub(super) failures: u32,
}

/// A slot that has come and has no answer yet.
#[derive(Debug, Default)]
pub(super) struct Ask {
    pub(super) state: AskState,
    pub(super) failures: u32,
    /// Found by a survey, not by the clock: several such slots are asked for in one breath.
    pub(super) found: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AskState {
    #[default]
    Ready,
    InFlight,
    /// Waits for `Timer::Ask`.
    Later,
    /// Waits for a place.
    Place,
}

/// More slots than this do not wait one by one: a survey says what is still in time.
pub(super) const ASKS_KEPT: usize = 1_000;

impl Job {
    pub(super) fn new(spec: JobSpec, limits: JobLimits) -> Job {
        Job {
            name: spec.name.clone(),
            spec: Arc::new(spec),
            limits,
            phase: Phase::Registering,
            register_failures: 0,
            announced: false,
            cursor: i64::MIN,
            next: None,
            asks: BTreeMap::new(),
            tokens: BTreeMap::new(),
            asked: BTreeSet::new(),
            sweep: Sweep::default(),
            missed: Missed::default(),
            catch_up: BTreeSet::new(),
            abandoned: 0,
            conflict_told: String::new(),
            manual: Vec::new(),
        }
    }

    pub(super) fn settings(&self) -> &JobSettings {
        &self.spec.settings
    }

    pub(super) fn not_after(&self, slot: i64) -> i64 {
        self.settings().not_after_ms(&self.spec.schedule, slot)
    }

    /// Goes by another definition from now on.
    pub(super) fn follow(&mut self, schedule: Schedule) {
        self.spec = Arc::new(JobSpec { schedule, ..(*self.spec).clone() });
    }

    /// Whether a slot is on its way to an answer.
    pub(super) fn is_asking(&self, slot: i64) -> bool {
        self.asks.contains_key(&slot) || self.asked.contains(&slot)
    }

    /// The ask whose turn it is: the oldest, and none while it is unanswered.
    pub(super) fn next_ask(&self) -> Option<(i64, AskState)> {
        let mut asks = self.asks.iter().map(|(slot, ask)| (*slot, ask.state));
        if mends::is_out(Mend::T07) {
            return asks
                .rev()
                .find(|(_, state)| matches!(state, AskState::Ready | AskState::Place));
        }
        asks.next()
    }

    /// Whether any slot waits for an answer.
    pub(super) fn has_asks(&self) -> bool {
        !self.asks.is_empty()
    }

    /// Whether the next slot is far away.
    pub(super) fn is_rare(&self, wall: i64) -> bool {
        self.next.is_none_or(|next| next - wall > crate::scheduler::driver::HOUR_MS)
    }

    /// The first slot that is not too late at the store's time `now` (ms): everything before it is.
    pub(super) fn first_in_time(&self, now: i64) -> i64 {
        let schedule = &self.spec.schedule;
        if let Some(late) = self.settings().uniform_late_ms(schedule) {
            let first = schedule.next(now.saturating_sub(late).saturating_sub(1));
            return first.map_or(now.saturating_add(1), |slot| slot.min(now.saturating_add(1)));
        }
        let mut first = now.saturating_add(1);
        while let Some(slot) = self.spec.schedule.prev(first) {
            if self.not_after(slot) < now {
                break;
            }
            first = slot;
        }
        first
    }
}

/// The error for a job that is not there.
pub(super) fn unknown_job(name: &str) -> Error {
    Error::new(
        crate::error::Code::UnknownJob,
        format!("no job {name:?} is registered here; register it first, or check the name"),
    )
}
