//! A history of calls, run on a store and on the reference at once.

use std::fmt;

use crate::backend::contract::{
    ActiveRun, ClaimInput, ClaimOutcome, JobLimits, Overlap, PauseRequest, RunClaim, RunRecord,
    StoredResult, Survey,
};
use crate::backend::history::stored_record;
use crate::error::Result;
use crate::lease::model::{JobState, MissedRange, RunKey};
use crate::lease::rules::{self, Answer, Call, Change};
use crate::testing::conformance::Halt;
use crate::testing::conformance::bed::{Bed, instance, limits, result};
use crate::testing::conformance::step::{AHEAD, Lease, SLOTS, Step, TOO_FAR};

/// A script that a store did not follow: the calls, and what was wrong with the last.
pub(super) struct Mismatch {
    pub(super) trace: Vec<String>,
    pub(super) what: String,
}

impl Mismatch {
    /// The calls, numbered, and what was wrong.
    pub(super) fn text(&self) -> String {
        let lines = self.trace.iter().enumerate();
        let numbered: Vec<String> =
            lines.map(|(index, line)| format!("  {}. {line}", index + 1)).collect();
        format!("{}\n  {}", numbered.join("\n"), self.what)
    }
}

/// No lease of a script is this long (ms) but for those that outlast it.
const SHORTEST_LONG_MS: i64 = 60_000;

/// The reference: the pure rules, and the bodies that they keep.
#[derive(Default)]
struct Reference {
    state: JobState,
    results: std::collections::HashMap<RunKey, StoredResult>,
    /// The store's clock as it was heard last (ms).
    now: i64,
}

impl Reference {
    fn decide(&mut self, call: &Call) -> Answer {
        let decision = rules::decide(&self.state, call, self.now);
        rules::apply(&mut self.state, &decision.changes);
        for change in decision.changes {
            match change {
                Change::Put { run, result: Some(result) } => {
                    self.results.insert(run.key(), *result);
                }
                Change::Drop(key) => {
                    self.results.remove(&key);
                }
                Change::Put { .. } | Change::Header(_) => {}
            }
        }
        decision.answer
    }

    fn history(&self, job: &str, limit: usize) -> Vec<RunRecord> {
        let runs = self.state.runs.values().rev().take(limit);
        runs.map(|run| stored_record(job, run, self.results.get(&run.key()), self.now)).collect()
    }
}

/// A script under way on a fresh job.
struct Play<'a> {
    bed: &'a Bed,
    job: String,
    base: i64,
    reference: Reference,
}

/// Runs the steps on a fresh job; the mismatch if the store answered otherwise than the rules.
pub(super) async fn play(
    bed: &Bed,
    registered: &Step,
    steps: &[Step],
) -> std::result::Result<Option<Mismatch>, Halt> {
    let mut play = Play::start(bed, registered).await?;
    let mut trace = vec![registered.to_string()];
    for step in steps {
        trace.push(step.to_string());
        if let Some(what) = play.step(step).await? {
            return Ok(Some(Mismatch { trace, what }));
        }
    }
    Ok(None)
}

impl<'a> Play<'a> {
    async fn start(bed: &'a Bed, registered: &Step) -> Result<Play<'a>> {
        let mut play = Play { bed, job: bed.new_name(), base: 0, reference: Reference::default() };
        play.reference.now = bed.now().await?;
        play.register(registered).await?;
        // Slots from 0 on come after the job was registered, and have come when the script begins.
        play.reference.now = bed.now().await?;
        play.base = play.reference.now + 5;
        bed.wait_until(play.base + SLOTS + 2).await?;
        play.reference.now = bed.now().await?;
        Ok(play)
    }

    fn slot(&self, number: i64) -> i64 {
        match number {
            ..0 => self.base - 7_200_000 + number,
            0..AHEAD => self.base + number,
            _ => self.base + 7_200_000 + number,
        }
    }

    fn token(&self, number: u32) -> String {
        format!("{}-token-{number}", self.job)
    }

    fn limits(&self, step: &Step) -> JobLimits {
        let Step::Register { schedule, history_size, keep_ms, keep_slots } = step else {
            return limits(&self.job, 100);
        };
        JobLimits {
            schedule: Some(format!("every:{schedule}")),
            keep_ms: Some(*keep_ms),
            keep_slots: Some(*keep_slots),
            keep_window_ms: Some(86_400_000),
            ..limits(&self.job, *history_size)
        }
    }

    async fn register(&mut self, step: &Step) -> Result<()> {
        let limits = self.limits(step);
        self.bed.client().prepare_job(&limits).await?;
        self.reference.decide(&Call::Register(limits));
        Ok(())
    }

    fn input(
        &self,
        by: usize,
        slot: i64,
        token: u32,
        lease: Lease,
        overlap: Overlap,
    ) -> ClaimInput {
        let mut input = self.bed.input(&self.job, self.slot(slot), by);
        input.token = self.token(token);
        input.lease_ms = Some(lease.ms());
        input.overlap = Some(overlap);
        if slot >= TOO_FAR {
            input.max_early_ms = Some(2_000);
        }
        // What was registered counts, and what a claim says must say the same.
        input.history_size = self.reference.state.header.history_size;
        input
    }

    /// One call on the store and on the reference; what is different, in words.
    async fn step(&mut self, step: &Step) -> std::result::Result<Option<String>, Halt> {
        let job = self.job.clone();
        let different = match step {
            Step::Register { .. } => {
                self.register(step).await?;
                None
            }
            Step::Claim { by, slot, token, kind, lease, overlap, max_takeovers, too_late } => {
                let claim = RunClaim {
                    input: self.input(*by, *slot, *token, *lease, *overlap),
                    kind: *kind,
                    max_takeovers: *max_takeovers,
                    not_after_ms: Some(if *too_late { 1 } else { i64::MAX / 4 }),
                };
                let told = self.bed.runs_of(*by).claim(&claim).await?;
                self.outcome(&told, &Call::Claim(claim))
            }
            Step::Manual { by, slot, token, lease, overlap, force, too_old } => {
                let runs = self.bed.runs_of(*by);
                need(runs.has_claim_manual(), "claimManual")?;
                let mut input = self.input(*by, *slot, *token, *lease, *overlap);
                input.force = Some(*force);
                let ago = if *too_old { 172_800_000 } else { 0 };
                input.asked_at = Some(self.reference.now - ago);
                let told = runs.claim_manual(&input).await?;
                self.outcome(&told, &Call::ClaimManual(input))
            }
            Step::Heartbeat { by, slot, token, lease } => {
                let (slot, token, lease_ms) = (self.slot(*slot), self.token(*token), lease.ms());
                let told = self.bed.runs_of(*by).heartbeat(&job, slot, &token, lease_ms).await?;
                self.truth(told, &Call::Heartbeat { slot, token, lease_ms })
            }
            Step::Finish { by, slot, token, status } => {
                let (slot, token, status) = (self.slot(*slot), self.token(*token), *status);
                let manual = self.is_manual(slot, &token);
                let body = StoredResult { status, ..result(slot, manual, &instance(*by)) };
                let runs = self.bed.runs_of(*by);
                let told = runs.finish(&job, slot, &token, status, Some(&body)).await?;
                if told && !runs.keeps_result() {
                    let size = self.reference.state.header.history_size;
                    self.bed.client().save_result(&job, &body, size, None).await?;
                }
                self.truth(told, &Call::Finish { slot, token, status, result: Some(body) })
            }
            Step::Release { by, slot, token } => {
                let (slot, token) = (self.slot(*slot), self.token(*token));
                let told = self.bed.runs_of(*by).release(&job, slot, &token).await?;
                self.truth(told, &Call::Release { slot, token })
            }
            Step::Cancel { slot, manual } => {
                need(self.bed.runs().has_cancel(), "cancel")?;
                let (slot, manual) = (self.slot(*slot), *manual);
                let told = self.bed.runs().cancel(&job, slot, manual).await?;
                self.truth(told, &Call::Cancel { slot, manual })
            }
            Step::Pause | Step::Resume => {
                need(self.bed.runs().has_set_paused(), "setPaused")?;
                let by = instance(0);
                let request = (*step == Step::Pause).then_some(PauseRequest { by, reason: None });
                self.bed.runs().set_paused(&job, request.as_ref()).await?;
                self.reference.decide(&Call::SetPaused(request));
                None
            }
            Step::Missed { from, to } => {
                need(self.bed.runs().has_record_missed(), "recordMissed")?;
                let range = MissedRange {
                    from: self.slot(*from),
                    to: self.slot(*to),
                    count: 2,
                    reason: "no_instance".to_owned(),
                    by: instance(0),
                    at: 0,
                };
                let told = self.bed.runs().record_missed(&job, &range).await?;
                self.truth(told, &Call::RecordMissed(range))
            }
            Step::Forget => {
                need(self.bed.runs().has_forget(), "forget")?;
                let told = self.bed.runs().forget(&job).await?;
                self.truth(told, &Call::Forget)
            }
            Step::Pass => None,
            Step::Active => self.active().await?,
            Step::Survey => self.survey().await?,
            Step::History { limit } => self.history(*limit).await?,
        };
        self.outlast(step).await?;
        Ok(different)
    }

    fn is_manual(&self, slot: i64, token: &str) -> bool {
        let run = self.reference.state.runs.get(&RunKey::manual(slot));
        run.is_some_and(|run| run.token == token)
    }

    /// After a short lease was asked for, or is what is left of a longer one, waits until it is over
    /// on the store's clock.
    async fn outlast(&mut self, step: &Step) -> Result<()> {
        let short = matches!(
            step,
            Step::Pass
                | Step::Claim { lease: Lease::Short, .. }
                | Step::Manual { lease: Lease::Short, .. }
                | Step::Heartbeat { lease: Lease::Short, .. }
        );
        // A heartbeat may have made the lease of a run shorter, which cuts it at the next settling.
        let now = self.reference.now;
        let cut = self.reference.state.unfinished().any(|run| {
            run.lease_ms < SHORTEST_LONG_MS && (1..=run.lease_ms).contains(&run.left_ms(now))
        });
        if short || cut {
            self.bed.outlast_short_leases().await?;
            let now = self.bed.now().await?;
            self.reference.now = self.reference.now.max(now);
        }
        Ok(())
    }

    /// What of an answer is different from the reference's.
    fn outcome(&mut self, told: &ClaimOutcome, call: &Call) -> Option<String> {
        // The store's own reading of its clock: the reference decides at the same instant.
        if let Some(now) = told.now_ms {
            self.reference.now = self.reference.now.max(now);
        }
        let right = self.reference.decide(call).into_outcome();
        let mut all = Differences { strict: self.bed.options.complete, found: Vec::new() };
        let kind = |outcome: &ClaimOutcome| outcome.kind.as_str().to_owned();
        all.compare("kind", Some(kind(told)), Some(kind(&right)));
        if told.kind == right.kind {
            all.compare("attempt", told.attempt, right.attempt);
            all.compare("fence", told.fence, right.fence);
            all.compare("maxTakeovers", told.max_takeovers, right.max_takeovers);
            all.compare("by", told.by.as_deref(), right.by.as_deref());
            all.compare("slot", told.slot, right.slot);
            all.compare("manual", told.manual, right.manual);
            all.compare("leftMs", told.left_ms.map(alive), right.left_ms.map(alive));
            all.compare("nextMs", told.next_ms.map(alive), right.next_ms.map(alive));
            if all.strict && told.now_ms.is_none() {
                all.found.push("`nowMs` is missing".to_owned());
            }
        }
        all.text("the store answered", &kind(told))
    }

    fn truth(&mut self, told: bool, call: &Call) -> Option<String> {
        let right = self.reference.decide(call).is_true();
        (told != right).then(|| format!("the store answered {told}, the rules say {right}"))
    }

    async fn active(&mut self) -> Result<Option<String>> {
        let told = self.bed.runs().active(&self.job).await?;
        let right = rules::active(&self.reference.state, self.reference.now);
        let shape =
            |runs: &[ActiveRun]| runs.iter().map(|run| self.shape(run)).collect::<Vec<String>>();
        let (told, right) = (shape(&told), shape(&right));
        Ok((told != right).then(|| format!("`active` shows {told:?}, the rules say {right:?}")))
    }

    fn shape(&self, run: &ActiveRun) -> String {
        let slot = self.number(run.slot);
        let kind = if run.manual { "manual" } else { "scheduled" };
        let life = if run.alive { "alive" } else { "over" };
        format!("{slot} {kind} by {} attempt {} {life}", run.by, run.attempt)
    }

    /// The number of a slot, for messages.
    fn number(&self, slot: i64) -> i64 {
        let ahead = slot - self.base - 7_200_000;
        let before = slot - self.base + 7_200_000;
        match slot - self.base {
            _ if ahead >= AHEAD => ahead,
            _ if before < SLOTS => before,
            number => number,
        }
    }

    async fn survey(&mut self) -> std::result::Result<Option<String>, Halt> {
        need(self.bed.runs().has_survey(), "survey")?;
        let told = self.bed.runs().survey(&self.job).await?;
        self.reference.now = self.reference.now.max(told.now_ms);
        let right = self.reference.decide(&Call::Survey).into_survey();
        let mut all = Differences { strict: true, found: Vec::new() };
        let numbers = |slots: &[i64]| slots.iter().map(|s| self.number(*s)).collect::<Vec<i64>>();
        all.compare("slots", Some(numbers(&told.slots)), Some(numbers(&right.slots)));
        let shapes = |survey: &Survey| {
            survey.runs.iter().map(|run| self.shape(run)).collect::<Vec<String>>()
        };
        all.compare("runs", Some(shapes(&told)), Some(shapes(&right)));
        let floor = |floor: i64| {
            if floor == 0 { "none".to_owned() } else { self.number(floor).to_string() }
        };
        all.compare("floor", Some(floor(told.floor)), Some(floor(right.floor)));
        all.compare("schedule", Some(&told.schedule), Some(&right.schedule));
        all.compare("paused", Some(told.paused.is_some()), Some(right.paused.is_some()));
        all.compare("since", Some(told.since > 0), Some(right.since > 0));
        all.compare("missed", Some(told.missed.len()), Some(right.missed.len()));
        Ok(all.text("the survey", "is"))
    }

    async fn history(&mut self, limit: usize) -> Result<Option<String>> {
        let told = self.bed.client().history(&self.job, limit).await?;
        let right = self.reference.history(&self.job, limit);
        let shape = |records: &[RunRecord]| {
            let line = |record: &RunRecord| {
                let kind = if record.manual { "manual" } else { "scheduled" };
                let attempt = record.attempt.filter(|_| self.bed.options.complete);
                let fence = record.fence.filter(|_| self.bed.options.complete);
                let (slot, status) = (self.number(record.slot), record.status);
                let body = record.output.is_some();
                let by = &record.by;
                format!("{slot} {kind} {status} by {by} {attempt:?} {fence:?} output {body}")
            };
            records.iter().map(line).collect::<Vec<String>>()
        };
        let (told, right) = (shape(&told), shape(&right));
        Ok((told != right).then(|| {
            format!(
                "history shows\n    {}\n  the rules say\n    {}",
                told.join("\n    "),
                right.join("\n    ")
            )
        }))
    }
}

fn need(there: bool, member: &str) -> std::result::Result<(), Halt> {
    if there { Ok(()) } else { Err(Halt::Skipped(format!("`runs.{member}` is not there"))) }
}

/// A lease is alive or over; how much is left of it depends on when the store was asked.
fn alive(left_ms: i64) -> &'static str {
    if left_ms > 0 { "something" } else { "nothing" }
}

/// What is different between an answer and the right one.
struct Differences {
    /// A field that is missing is different.
    strict: bool,
    found: Vec<String>,
}

impl Differences {
    fn compare<T: PartialEq + fmt::Debug>(
        &mut self,
        field: &str,
        told: Option<T>,
        right: Option<T>,
    ) {
        let optional = !self.strict && (told.is_none() || right.is_none());
        if told == right || optional {
            return;
        }
        let show =
            |value: &Option<T>| value.as_ref().map_or("nothing".to_owned(), |v| format!("{v:?}"));
        let (told, right) = (show(&told), show(&right));
        self.found.push(format!("`{field}` is {told}, the rules say {right}"));
    }

    fn text(self, subject: &str, what: &str) -> Option<String> {
        (!self.found.is_empty()).then(|| format!("{subject} `{what}`: {}", self.found.join("; ")))
    }
}
