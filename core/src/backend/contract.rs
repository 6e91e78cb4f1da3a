//! The contract between the scheduler and a store.
//!
//! One rule matters more than everything else: **for one job and one slot, a claim is granted to
//! exactly one instance.** A claim is repeated with the same token when its answer got lost, so a
//! store compares tokens: the same claim sent again is still granted. An error, or no answer within
//! the deadline, means *unknown*: neither won nor lost, asked again with the same token.
//!
//! What a lease store decides is written once, as a pure function, in [`crate::lease::rules`].

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::lease::model::{MissedRange, Paused, Status};

/// Whether a job may start while another run of it is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Runs may overlap.
    #[default]
    Allow,
    /// A slot that falls due while a run is unfinished is skipped.
    Skip,
}

/// Which missed slots are made up for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// None: what is too late is reported as missed.
    #[default]
    None,
    /// The newest one.
    Latest,
    /// All, up to `catchUpLimit`.
    All,
}

/// What an instance sends to claim a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimInput {
    /// The job's name, 1 to 255 bytes.
    pub job: String,
    /// The scheduled time (ms): with `job`, the identity of the run.
    pub slot: i64,
    /// 128 random bits in hex, unique to this attempt.
    pub token: String,
    /// Who is asking.
    pub instance_id: String,
    /// How many ended records to keep.
    pub history_size: i64,
    /// How long to keep them (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_ttl_ms: Option<i64>,
    /// The length of the lease asked for (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    /// Whether another unfinished run is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// A manual run that is started although another one is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// How far the caller's clock may run ahead of the store's (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_early_ms: Option<i64>,
    /// For a manual run: when it was asked for (ms, the caller's idea of the store's clock). Lets a
    /// store tell a new request for an old slot from a duplicate that arrives late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<i64>,
}

/// Why a lease is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// The slot has come.
    Slot,
    /// Somebody else's lease seems to be over.
    Backup,
    /// A missed slot is made up for.
    CatchUp,
}

/// What an instance sends to claim a slot with a lease. Always means the scheduled run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunClaim {
    /// The claim itself.
    #[serde(flatten)]
    pub input: ClaimInput,
    /// Why it is asked for.
    pub kind: ClaimKind,
    /// How many crashes others may take over, if this claim starts the run.
    pub max_takeovers: i64,
    /// The last instant on the store's clock at which the slot may still be started (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_ms: Option<i64>,
}

/// The kinds of answers to a claim with a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// The caller holds the run now.
    Won,
    /// Another instance holds it.
    Running,
    /// It has ended.
    Done,
    /// Another run of the job is unfinished.
    Overlap,
    /// There is nothing to take over, or to catch up.
    None,
    /// Too late to start.
    Late,
    /// The caller's clock runs ahead of the store's, or the slot has not come yet.
    Early,
    /// The job is paused.
    Paused,
    /// A word that this version does not know: treated as `Done`.
    Unknown(String),
}

impl OutcomeKind {
    /// The word that a store answers with.
    pub fn as_str(&self) -> &str {
        match self {
            OutcomeKind::Won => "won",
            OutcomeKind::Running => "running",
            OutcomeKind::Done => "done",
            OutcomeKind::Overlap => "overlap",
            OutcomeKind::None => "none",
            OutcomeKind::Late => "late",
            OutcomeKind::Early => "early",
            OutcomeKind::Paused => "paused",
            OutcomeKind::Unknown(word) => word,
        }
    }

    /// The kind with this word; every word is one.
    pub fn parse(word: &str) -> OutcomeKind {
        match word {
            "won" => OutcomeKind::Won,
            "running" => OutcomeKind::Running,
            "done" => OutcomeKind::Done,
            "overlap" => OutcomeKind::Overlap,
            "none" => OutcomeKind::None,
            "late" => OutcomeKind::Late,
            "early" => OutcomeKind::Early,
            "paused" => OutcomeKind::Paused,
            other => OutcomeKind::Unknown(other.to_owned()),
        }
    }
}

impl Serialize for OutcomeKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for OutcomeKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(OutcomeKind::parse(&String::deserialize(deserializer)?))
    }
}

/// The answer to a claim with a lease. Only `kind` is always there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimOutcome {
    /// What the store decided.
    pub kind: OutcomeKind,
    /// Grants of this run so far (`won`, `running`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The fencing number of the grant (`won`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// The run's own policy (`won`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_takeovers: Option<i64>,
    /// The slot of the run in the way (`overlap`), or the slot used (manual runs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<i64>,
    /// Whether the run in the way is a manual one (`overlap`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<bool>,
    /// Who holds the run, or the run in the way (`running`, `overlap`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What is left of that lease (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<i64>,
    /// The store's clock at the decision (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
    /// What is left of the earliest lease of the job's other unfinished runs (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<i64>,
}

impl ClaimOutcome {
    /// An outcome of this kind that says nothing else.
    pub fn of(kind: OutcomeKind) -> ClaimOutcome {
        ClaimOutcome {
            kind,
            attempt: None,
            fence: None,
            max_takeovers: None,
            slot: None,
            manual: None,
            by: None,
            left_ms: None,
            now_ms: None,
            next_ms: None,
        }
    }
}

impl ClaimOutcome {
    /// The answer to a manual run as `record_manual_run` gives it: the slot used.
    ///
    /// # Errors
    /// `OVERLAP` if another run was in the way; `LEASE_LOST` if the run of this very request has
    /// ended or was given back, so that nothing may be started; `BACKEND_REFUSED` if the request is
    /// so old that it could be a late duplicate.
    pub fn into_manual_slot(self, input: &ClaimInput) -> Result<Option<i64>> {
        let (job, slot) = (&input.job, input.slot);
        let (code, why) = match self.kind {
            OutcomeKind::Won => return Ok(self.slot),
            OutcomeKind::Done if input.lease_ms.is_none() => return Ok(self.slot),
            OutcomeKind::Overlap => {
                let by = self.by.unwrap_or_default();
                let other = self.slot.unwrap_or_default();
                let why = format!("its run of slot {other} at {by} has not ended; use force");
                (Code::Overlap, why)
            }
            OutcomeKind::Late => {
                let now = self.now_ms.unwrap_or_default();
                let why = format!("the request is too old at {now} on the store's clock; ask anew");
                (Code::BackendRefused, why)
            }
            _ => (Code::LeaseLost, "that request's run has ended already".to_owned()),
        };
        Err(Error::new(code, format!("no manual run of job {job:?} for slot {slot}: {why}")))
    }
}

/// What a thrown error leaves in the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The class of the error.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it was thrown, up to 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResult {
    /// The slot of the run (ms).
    pub slot: i64,
    /// Asked for by hand.
    pub manual: bool,
    /// The instance that ran it.
    pub by: String,
    /// How it ended.
    pub status: Status,
    /// When the handler was entered first (ms, the instance's clock).
    pub started_at: i64,
    /// When it ended (ms, the instance's clock).
    pub ended_at: i64,
    /// Grants of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// What the handler threw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What the handler returned, as JSON text of at most 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The output was longer and has been cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_truncated: Option<bool>,
    /// The handler ignored its cancellation and may still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<bool>,
}

/// A claim, as history is built from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRecord {
    /// The slot (ms).
    pub slot: i64,
    /// The instance that won it.
    pub by: String,
    /// When (ms).
    pub at: i64,
    /// Asked for by hand.
    pub manual: bool,
}

/// One run, as `history()` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The job's name.
    pub job: String,
    /// The slot (ms).
    pub slot: i64,
    /// Asked for by hand.
    pub manual: bool,
    /// The instance that claimed it last.
    pub by: String,
    /// When it was claimed last (ms).
    pub at: i64,
    /// How it ended, or how it stands.
    pub status: Status,
    /// Grants so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The fencing number of the last grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// When the handler was entered (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// When it ended (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// How long the handler took (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// What the handler threw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What the handler returned, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The output was longer and has been cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_truncated: Option<bool>,
    /// The handler ignored its cancellation and may still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<bool>,
}

/// What a job will ask of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobLimits {
    /// The job's name.
    pub name: String,
    /// The longest wait before a claim (ms).
    pub jitter_ms: i64,
    /// How late a slot may still be started (ms).
    pub max_late_ms: i64,
    /// How many ended records to keep.
    pub history_size: i64,
    /// How long to keep them (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_ttl_ms: Option<i64>,
    /// The length of a lease (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    /// Whether runs may overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Which missed slots are made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// The fingerprint of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Trimming leaves every record younger than this (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<i64>,
    /// Trimming leaves so many of the newest scheduled records …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_slots: Option<i64>,
    /// … that are younger than this (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_window_ms: Option<i64>,
    /// The version of the compiled-in time-zone tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_tables: Option<String>,
}

/// An unfinished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveRun {
    /// The slot (ms).
    pub slot: i64,
    /// Asked for by hand.
    pub manual: bool,
    /// Who holds it, or held it last.
    pub by: String,
    /// Grants so far.
    pub attempt: i64,
    /// What is left of its lease (ms); 0 if it is over.
    pub left_ms: i64,
    /// The lease is alive.
    pub alive: bool,
}

/// What the scheduler needs to know of a job at a start, after a gap and for a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// The store's clock (ms).
    pub now_ms: i64,
    /// The fingerprint in force; empty if the job is not registered.
    #[serde(default)]
    pub schedule: String,
    /// When that definition was first registered (ms).
    #[serde(default)]
    pub since: i64,
    /// The greatest scheduled slot whose record has been trimmed.
    #[serde(default)]
    pub floor: i64,
    /// Set while no new run may be started.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// The slots of all scheduled records, ascending.
    #[serde(default)]
    pub slots: Vec<i64>,
    /// The unfinished runs.
    #[serde(default)]
    pub runs: Vec<ActiveRun>,
    /// The ranges already reported as missed.
    #[serde(default)]
    pub missed: Vec<MissedRange>,
    /// The version of the time-zone tables of whoever registered last.
    #[serde(default)]
    pub zone_tables: String,
}

/// A heartbeat, for those that travel together.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The job's name.
    pub job: String,
    /// The slot of the run (ms).
    pub slot: i64,
    /// The holder's token.
    pub token: String,
    /// The length of the lease (ms).
    pub lease_ms: i64,
}

/// The end of a run, for those that travel together.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// The job's name.
    pub job: String,
    /// The slot of the run (ms).
    pub slot: i64,
    /// The holder's token.
    pub token: String,
    /// How it ended.
    pub status: Status,
    /// The whole result.
    pub result: Option<StoredResult>,
}

/// A store that the replicas share.
///
/// Every method may be called from several tasks at once and may be repeated.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Shown as `scheduler.backend.name`, for example `memory`.
    fn name(&self) -> String;

    /// How long the store remembers a claimed run (ms); `None` for ever.
    fn dedupe_window_ms(&self) -> Option<i64> {
        None
    }

    /// Connects and checks the server. Repeating it is harmless.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` if the server cannot be reached, `BACKEND_REFUSED` or `SCHEMA_TOO_NEW`
    /// if what is there breaks the promise.
    async fn init(&self) -> Result<()>;

    /// Like [`Backend::init`], for a program that only reads (`history`, `explain`): it must not
    /// create anything, so that asking never makes an empty store. [`Backend::init`] may follow.
    ///
    /// # Errors
    /// As [`Backend::init`], and `BACKEND_REFUSED` if there is nothing to read yet.
    async fn init_reader(&self) -> Result<()> {
        self.init().await
    }

    /// One-time setup for a job; registers its limits. Repeating it is harmless.
    async fn prepare_job(&self, limits: &JobLimits) -> Result<()>;

    /// Registers several jobs; one result each.
    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(limits.len());
        for one in limits {
            answers.push(self.prepare_job(one).await);
        }
        answers
    }

    /// True for exactly one instance per slot; the same token again is still true. Atomic.
    async fn claim(&self, input: &ClaimInput) -> Result<bool>;

    /// Records a manual run, not deduplicated, and answers the slot used if it is another one.
    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>>;

    /// Stores how a run ended.
    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()>;

    /// The latest runs from all instances, newest first.
    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>>;

    /// Closes what the backend opened itself. Repeating it is harmless.
    async fn close(&self) -> Result<()>;

    /// Refuses a job that this backend cannot run safely.
    fn check_job(&self, _job: &JobLimits) -> Result<()> {
        Ok(())
    }

    /// Whether [`Backend::record_claim`] wants to be called after a won claim.
    fn records_claims(&self) -> bool {
        false
    }

    /// Called after a won claim, if the claim itself is not already a history record.
    async fn record_claim(&self, _input: &ClaimInput) -> Result<()> {
        Ok(())
    }

    /// The leases of this store, if it has them.
    fn runs(&self) -> Option<&dyn RunStore> {
        None
    }

    /// The namespace that the object was opened with; `None` if namespaces are its own business.
    fn namespace(&self) -> Option<&str> {
        None
    }

    /// Whether calls of one moment are one call to the store. Where they are not, each is sent and
    /// answered by itself, so that one without an answer holds up no other.
    fn sends_together(&self) -> bool {
        true
    }

    /// Whether the store judges by a clock of its own, which a manual clock would not move.
    fn has_own_clock(&self) -> bool {
        true
    }

    /// The same store under another namespace, sharing the connections; `None` if namespaces are
    /// the object's own business.
    fn with_namespace(&self, _namespace: &str) -> Option<std::sync::Arc<dyn Backend>> {
        None
    }
}

/// The leases of a store. Every method is one atomic step on the job's state, decided by
/// [`crate::lease::rules`] on the store's clock.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Decides between won, running, done, overlap, none, late, early and paused.
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome>;

    /// Several claims of different jobs, or of different slots; one answer each, in order.
    async fn claim_all(&self, claims: &[RunClaim]) -> Vec<Result<ClaimOutcome>> {
        let calls = claims.iter().map(|claim| self.claim(claim));
        futures_util::future::join_all(calls).await
    }

    /// Moves the lease end forward, only if the stored token matches.
    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool>;

    /// Several heartbeats; one answer each, in order.
    async fn heartbeat_all(&self, beats: &[Heartbeat]) -> Vec<Result<bool>> {
        let calls = beats.iter().map(|b| self.heartbeat(&b.job, b.slot, &b.token, b.lease_ms));
        futures_util::future::join_all(calls).await
    }

    /// Marks the run ended, only with the matching token; true again when repeated.
    async fn finish(
        &self,
        job: &str,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Result<bool>;

    /// Several ends; one answer each, in order.
    async fn finish_all(&self, ends: &[Finish]) -> Vec<Result<bool>> {
        let calls = ends.iter().map(|end| {
            self.finish(&end.job, end.slot, &end.token, end.status, end.result.as_ref())
        });
        futures_util::future::join_all(calls).await
    }

    /// Ends a live lease now, so that a backup can take over.
    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool>;

    /// The unfinished runs, oldest slot first. Changes nothing.
    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>>;

    /// Whether [`RunStore::survey`] is there.
    fn has_survey(&self) -> bool {
        false
    }

    /// Everything about a job that a sweep or a start needs.
    async fn survey(&self, _job: &str) -> Result<Survey> {
        Err(unsupported("survey"))
    }

    /// Several surveys; one answer each, in order.
    async fn survey_all(&self, jobs: &[String]) -> Vec<Result<Survey>> {
        let calls = jobs.iter().map(|job| self.survey(job));
        futures_util::future::join_all(calls).await
    }

    /// Whether [`RunStore::claim_manual`] is there; else `record_manual_run` is used.
    fn has_claim_manual(&self) -> bool {
        false
    }

    /// A manual run under a lease: `won` with the slot used, `overlap`, `late`, or `done` and
    /// `running` for a repeat of a token whose run has ended or was released.
    async fn claim_manual(&self, _input: &ClaimInput) -> Result<ClaimOutcome> {
        Err(unsupported("claimManual"))
    }

    /// Whether `finish` stores the result; else `save_result` is called after it answered true.
    fn keeps_result(&self) -> bool {
        false
    }

    /// Whether [`RunStore::record_missed`] is there.
    fn has_record_missed(&self) -> bool {
        false
    }

    /// Records a missed range, once for the fleet: false if it was known already.
    async fn record_missed(&self, _job: &str, _range: &MissedRange) -> Result<bool> {
        Err(unsupported("recordMissed"))
    }

    /// Whether [`RunStore::set_paused`] is there.
    fn has_set_paused(&self) -> bool {
        false
    }

    /// Pauses or resumes a job: `Some` starts a pause (its `since` is set by the store), `None`
    /// ends it. `missed` counts the slots of a pause that ends, as far as the caller knows.
    async fn set_paused(&self, _job: &str, _paused: Option<&PauseRequest>) -> Result<()> {
        Err(unsupported("setPaused"))
    }

    /// Whether [`RunStore::cancel`] is there.
    fn has_cancel(&self) -> bool {
        false
    }

    /// Ends an unfinished run as `cancelled`, whoever holds it.
    async fn cancel(&self, _job: &str, _slot: i64, _manual: bool) -> Result<bool> {
        Err(unsupported("cancel"))
    }

    /// Calls `listener` after a run was released or has finished, if the store can push; never
    /// needed for correctness, it only shortens a wait. Ends when the listener is dropped.
    fn watch(&self, _listener: &std::sync::Arc<WakeListener>) {}

    /// Whether [`RunStore::forget`] is there.
    fn has_forget(&self) -> bool {
        false
    }

    /// Drops the ended records of a job and its definition; false while a run is unfinished.
    /// The floor rises over what is dropped, so that no slot is ever claimed again.
    async fn forget(&self, _job: &str) -> Result<bool> {
        Err(unsupported("forget"))
    }
}

/// What a store that can push tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A run was given back before its end.
    Released,
    /// A run has ended.
    Finished,
}

/// Called with the job's name; it must return at once.
pub type WakeListener = dyn Fn(&str, Wake) + Send + Sync;

/// Who pauses a job, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequest {
    /// The instance that asks.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn unsupported(member: &str) -> Error {
    Error::new(
        Code::LeasesRequired,
        format!("this backend has no `runs.{member}`; add it, or use a backend that has it"),
    )
}
