//! Everything observable of a fleet, in the order in which it happened.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::events::Event;
use crate::lease::model::{JobState, RunKey};
use crate::lease::rules::{Answer, Call};

/// A handler at work: which grant of which run it was started for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// The job's name.
    pub job: String,
    /// The run.
    pub key: RunKey,
    /// The fencing number of the grant.
    pub fence: i64,
    /// The grant's number.
    pub attempt: i64,
    /// The holder's token.
    pub token: String,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum What {
    /// The store executed a call of the instance, whether or not the answer arrives.
    Executed {
        /// The job's name.
        job: String,
        /// The call.
        call: Box<Call>,
        /// What was answered.
        answer: Box<Answer>,
        /// The job as it was stored then.
        state: Box<JobState>,
    },
    /// A handler was entered.
    HandlerStarted(Work),
    /// A handler was told to end.
    HandlerCancelled(Work),
    /// A handler ended.
    HandlerEnded(Work),
    /// The scheduler told something.
    Event(Box<Event>),
    /// The instance was started.
    Started,
    /// A stop was asked for.
    Stopping,
    /// The instance is gone without a word.
    Crashed,
    /// The process was stopped (SIGSTOP).
    Paused,
    /// It goes on.
    Resumed,
    /// From here on messages to and from the instance may be lost, or no longer.
    Lossy(bool),
    /// The store's clock was stepped by so much (ms).
    Stepped(i64),
    /// From here on every message arrives, and nobody crashes or pauses.
    Healed,
}

/// When it happened, and to whom.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The monotonic clock that all share (ms).
    pub at: i64,
    /// The store's clock (ms).
    pub store_ms: i64,
    /// The instance; empty for what concerns all.
    pub instance: String,
    /// What happened.
    pub what: What,
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} {:<4} ", self.at, self.instance)?;
        match &self.what {
            What::Executed { job, call, answer, .. } => {
                write!(f, "{job} {} -> {}", call_in_short(call), answer_in_short(answer))
            }
            What::Event(event) => {
                let fields = serde_json::to_string(event).unwrap_or_default();
                write!(f, "event {} {fields}", event.name())
            }
            What::HandlerStarted(work) => write!(f, "handler started {work}"),
            What::HandlerCancelled(work) => write!(f, "handler cancelled {work}"),
            What::HandlerEnded(work) => write!(f, "handler ended {work}"),
            other => write!(f, "{other:?}"),
        }
    }
}

fn short(token: &str) -> &str {
    token.get(..6).unwrap_or(token)
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manual = if self.key.manual { " manual" } else { "" };
        write!(f, "{} {}{manual} attempt {}", self.job, self.key.slot, self.attempt)
    }
}

/// A call in a few words, for a person who reads a trace.
fn call_in_short(call: &Call) -> String {
    match call {
        Call::Register(limits) => format!("registers {:?}", limits.schedule.as_deref()),
        Call::Claim(claim) => {
            let (input, kind) = (&claim.input, claim.kind);
            let lease = input.lease_ms.unwrap_or(0);
            format!("claims {} {kind:?} token {} lease {lease}", input.slot, short(&input.token))
        }
        Call::ClaimOnly(input) => format!("claims {} token {}", input.slot, short(&input.token)),
        Call::ClaimManual(input) => format!("manual {} token {}", input.slot, short(&input.token)),
        Call::Heartbeat { slot, token, .. } => format!("heartbeat {slot} token {}", short(token)),
        Call::Finish { slot, token, status, .. } => {
            format!("finishes {slot} token {} as {status}", short(token))
        }
        Call::Release { slot, token } => format!("releases {slot} token {}", short(token)),
        Call::Cancel { slot, manual } => format!("cancels {slot} manual {manual}"),
        Call::SaveResult { result, .. } => format!("saves {} {}", result.slot, result.status),
        Call::RecordMissed(range) => {
            format!("missed {} to {} ({}, {})", range.from, range.to, range.count, range.reason)
        }
        Call::Survey | Call::SetPaused(_) | Call::Forget => format!("{call:?}"),
    }
}

fn answer_in_short(answer: &Answer) -> String {
    match answer {
        Answer::Bool(truth) => truth.to_string(),
        Answer::Outcome(outcome) => serde_json::to_string(outcome).unwrap_or_default(),
        Answer::Survey(survey) => {
            let runs = survey.runs.iter().map(|run| {
                let state = if run.alive { "alive" } else { "over" };
                let manual = if run.manual { " manual" } else { "" };
                format!("{}{manual} by {} {state} {}", run.slot, run.by, run.left_ms)
            });
            let runs: Vec<String> = runs.collect();
            format!("floor {} slots {:?} runs {runs:?}", survey.floor, survey.slots)
        }
    }
}

/// How a job is stored, read without the store's noticing.
type Probe = dyn Fn(&str) -> JobState + Send + Sync;

/// Collects what happens. Cloning gives another handle of the same collection.
#[derive(Clone)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    probe: Arc<Probe>,
    seen: Arc<Mutex<Vec<Observed>>>,
}

impl Recorder {
    /// A recorder that dates by the store's clock, and looks at the store through `probe`.
    pub fn new(
        clock: Arc<dyn Clock>,
        probe: impl Fn(&str) -> JobState + Send + Sync + 'static,
    ) -> Recorder {
        Recorder { clock, probe: Arc::new(probe), seen: Arc::default() }
    }

    /// Notes something.
    pub fn note(&self, instance: &str, what: What) {
        let (at, store_ms) = (self.clock.mono_ms(), self.clock.wall_ms());
        self.seen().push(Observed { at, store_ms, instance: instance.to_owned(), what });
    }

    /// Notes a call that the store has just executed.
    pub fn executed(&self, instance: &str, job: &str, call: Call, answer: Answer) {
        let state = Box::new((self.probe)(job));
        let (call, answer) = (Box::new(call), Box::new(answer));
        self.note(instance, What::Executed { job: job.to_owned(), call, answer, state });
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Observed> {
        self.seen().clone()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Observed>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
