//! A backend written in Python or TypeScript, as a backend.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use crate::backend::contract::{
    ActiveRun, Backend, ClaimInput, ClaimOutcome, JobLimits, PauseRequest, RunClaim, RunRecord,
    RunStore, StoredResult, Survey,
};
use crate::error::{Error, Result};
use crate::host::answer::{fields, nothing, to_host, truth, wrong};
use crate::host::names::Naming;
use crate::host::object::HostObject;
use crate::lease::model::{MissedRange, Status};

/// The members that every backend has, in camelCase.
pub const REQUIRED: [&str; 7] =
    ["init", "prepareJob", "claim", "recordManualRun", "saveResult", "history", "close"];

/// The members that every store of leases has, in camelCase.
pub const REQUIRED_OF_RUNS: [&str; 5] = ["claim", "heartbeat", "finish", "release", "active"];

/// A user's backend.
pub struct HostBackend {
    host: Host,
    name: String,
    dedupe_window_ms: Option<i64>,
    records_claims: bool,
    runs: Option<HostRuns>,
}

/// What is read of the objects once, when they are handed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The property `name`.
    pub name: Value,
    /// The property `dedupeWindowMs`; `null` stands for Infinity, which JSON cannot say.
    pub dedupe_window_ms: Value,
    /// The property `runs.keepsResult`.
    pub keeps_result: bool,
}

/// An object with the language's way of writing names.
#[derive(Clone)]
struct Host {
    object: Arc<dyn HostObject>,
    /// How messages call it, for example `MyBackend` or `MyBackend.runs`.
    shown: String,
    naming: Naming,
}

impl Host {
    fn has(&self, member: &str) -> bool {
        self.object.has(&self.naming.write(member))
    }

    fn member(&self, member: &str) -> String {
        format!("{}.{}()", self.shown, self.naming.write(member))
    }

    fn value<T: Serialize>(&self, value: &T) -> Value {
        to_host(serde_json::to_value(value).unwrap_or(Value::Null), self.naming)
    }

    async fn call(&self, member: &str, arguments: Vec<Value>) -> Result<Value> {
        self.object.call(&self.naming.write(member), arguments, Vec::new()).await
    }

    /// A call with an argument that was added after the method's first form was published: passed
    /// by name, and only to a method that takes it.
    async fn call_with(
        &self,
        member: &str,
        arguments: Vec<Value>,
        added: &str,
        value: Value,
    ) -> Result<Value> {
        let (member, added) = (self.naming.write(member), self.naming.write(added));
        let named =
            if self.object.takes(&member, &added) { vec![(added, value)] } else { Vec::new() };
        self.object.call(&member, arguments, named).await
    }

    fn require(&self, members: &[&str]) -> Result<()> {
        let missing: Vec<String> = members
            .iter()
            .filter(|member| !self.has(member))
            .map(|member| self.naming.write(member))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::option(format!(
            "{} is no backend: it has no {}; see \"Writing your own backend\"",
            self.shown,
            missing.join(", ")
        )))
    }
}

impl HostBackend {
    /// Takes an object, and the object behind its property `runs` if it has one.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a missing member, or a property of the wrong type.
    pub fn new(
        object: Arc<dyn HostObject>,
        runs: Option<Arc<dyn HostObject>>,
        facts: &HostFacts,
        naming: Naming,
    ) -> Result<HostBackend> {
        let shown = object.describe();
        let host = Host { object, shown: shown.clone(), naming };
        host.require(&REQUIRED)?;
        let Some(name) = facts.name.as_str().filter(|name| !name.is_empty()) else {
            let value = &facts.name;
            return Err(Error::option(format!("{shown}.name is {value}; it must be a text")));
        };
        let dedupe_window_ms = read_window(&shown, &facts.dedupe_window_ms, naming)?;
        let runs = runs.map(|object| {
            let host = Host { object, shown: format!("{shown}.runs"), naming };
            host.require(&REQUIRED_OF_RUNS)?;
            Ok(HostRuns { host, keeps_result: facts.keeps_result })
        });
        Ok(HostBackend {
            name: name.to_owned(),
            dedupe_window_ms,
            records_claims: host.has("recordClaim"),
            runs: runs.transpose()?,
            host,
        })
    }
}

fn read_window(shown: &str, value: &Value, naming: Naming) -> Result<Option<i64>> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let whole = |ms: f64| (1.0..9e15).contains(&ms).then(|| ms.floor() as i64);
    match value {
        Value::Null => Ok(None),
        Value::Number(number) if number.as_f64().is_some_and(|ms| ms >= 9e15) => Ok(None),
        other => other.as_f64().and_then(whole).map(Some).ok_or_else(|| {
            Error::option(format!(
                "{shown}.{} is {other}; it must be a positive number of ms, or infinity if the store \
                 never forgets a claim",
                naming.write("dedupeWindowMs")
            ))
        }),
    }
}

#[async_trait]
impl Backend for HostBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn dedupe_window_ms(&self) -> Option<i64> {
        self.dedupe_window_ms
    }

    fn sends_together(&self) -> bool {
        false
    }

    /// That is the user's business: a store of theirs may read the manual clock too.
    fn has_own_clock(&self) -> bool {
        false
    }

    async fn init(&self) -> Result<()> {
        self.host.call("init", Vec::new()).await.map(|value| nothing(&value))
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        let arguments = vec![Value::from(limits.name.clone()), Value::from(limits.history_size)];
        let limits = self.host.value(limits);
        let answer = self.host.call_with("prepareJob", arguments, "limits", limits).await;
        answer.map(|value| nothing(&value))
    }

    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let calls = limits.iter().map(|one| self.prepare_job(one));
        futures_util::future::join_all(calls).await
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        let answer = self.host.call("claim", vec![self.host.value(input)]).await?;
        truth(&self.host.member("claim"), &answer)
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        let answer = self.host.call("recordManualRun", vec![self.host.value(input)]).await?;
        if answer.is_null() {
            return Ok(None);
        }
        let member = self.host.member("recordManualRun");
        fields(&member, answer, self.host.naming, "the slot used (ms), or nothing").map(Some)
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        let mut arguments =
            vec![Value::from(job), self.host.value(result), Value::from(history_size)];
        arguments.extend(history_ttl_ms.map(Value::from));
        self.host.call("saveResult", arguments).await.map(|value| nothing(&value))
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        let answer = self.host.call("history", vec![Value::from(job), Value::from(limit)]).await?;
        let wanted = "a list of run records, as buildHistory makes them";
        fields(&self.host.member("history"), answer, self.host.naming, wanted)
    }

    async fn close(&self) -> Result<()> {
        self.host.call("close", Vec::new()).await.map(|value| nothing(&value))
    }

    fn records_claims(&self) -> bool {
        self.records_claims
    }

    async fn record_claim(&self, input: &ClaimInput) -> Result<()> {
        let answer = self.host.call("recordClaim", vec![self.host.value(input)]).await;
        answer.map(|value| nothing(&value))
    }

    fn runs(&self) -> Option<&dyn RunStore> {
        self.runs.as_ref().map(|runs| runs as &dyn RunStore)
    }
}

/// A user's store of leases.
pub struct HostRuns {
    host: Host,
    keeps_result: bool,
}

impl HostRuns {
    async fn truth(&self, member: &str, arguments: Vec<Value>) -> Result<bool> {
        let answer = self.host.call(member, arguments).await?;
        truth(&self.host.member(member), &answer)
    }

    fn outcome(&self, member: &str, answer: Value) -> Result<ClaimOutcome> {
        let wanted = "an outcome: an object with a kind, such as { kind: \"won\" }";
        if !answer.get("kind").is_some_and(Value::is_string) {
            return Err(wrong(&self.host.member(member), &answer, wanted));
        }
        fields(&self.host.member(member), answer, self.host.naming, wanted)
    }
}

#[async_trait]
impl RunStore for HostRuns {
    async fn claim(&self, claim: &RunClaim) -> Result<ClaimOutcome> {
        let answer = self.host.call("claim", vec![self.host.value(claim)]).await?;
        self.outcome("claim", answer)
    }

    async fn heartbeat(&self, job: &str, slot: i64, token: &str, lease_ms: i64) -> Result<bool> {
        let arguments = vec![job.into(), slot.into(), token.into(), lease_ms.into()];
        self.truth("heartbeat", arguments).await
    }

    async fn finish(
        &self,
        job: &str,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Result<bool> {
        let arguments = vec![job.into(), slot.into(), token.into(), status.as_str().into()];
        let answer = match result {
            Some(result) => {
                let result = self.host.value(result);
                self.host.call_with("finish", arguments, "result", result).await?
            }
            None => self.host.call("finish", arguments).await?,
        };
        truth(&self.host.member("finish"), &answer)
    }

    async fn release(&self, job: &str, slot: i64, token: &str) -> Result<bool> {
        self.truth("release", vec![job.into(), slot.into(), token.into()]).await
    }

    async fn active(&self, job: &str) -> Result<Vec<ActiveRun>> {
        let answer = self.host.call("active", vec![job.into()]).await?;
        let wanted = "a list of { slot, manual, by, attempt, leftMs, alive }";
        fields(&self.host.member("active"), answer, self.host.naming, wanted)
    }

    fn has_survey(&self) -> bool {
        self.host.has("survey")
    }

    async fn survey(&self, job: &str) -> Result<Survey> {
        let answer = self.host.call("survey", vec![job.into()]).await?;
        let wanted = "{ nowMs, schedule, since, floor, paused, slots, runs }";
        let mut survey: Survey =
            fields(&self.host.member("survey"), answer, self.host.naming, wanted)?;
        survey.slots.sort_unstable();
        Ok(survey)
    }

    fn has_claim_manual(&self) -> bool {
        self.host.has("claimManual")
    }

    async fn claim_manual(&self, input: &ClaimInput) -> Result<ClaimOutcome> {
        let answer = self.host.call("claimManual", vec![self.host.value(input)]).await?;
        self.outcome("claimManual", answer)
    }

    fn keeps_result(&self) -> bool {
        self.keeps_result
    }

    fn has_record_missed(&self) -> bool {
        self.host.has("recordMissed")
    }

    async fn record_missed(&self, job: &str, range: &MissedRange) -> Result<bool> {
        let answer =
            self.host.call("recordMissed", vec![job.into(), self.host.value(range)]).await?;
        Ok(answer.as_bool().unwrap_or(true))
    }

    fn has_set_paused(&self) -> bool {
        self.host.has("setPaused")
    }

    async fn set_paused(&self, job: &str, paused: Option<&PauseRequest>) -> Result<()> {
        let request = paused.map_or(Value::Null, |request| self.host.value(request));
        let answer = self.host.call("setPaused", vec![job.into(), request]).await;
        answer.map(|value| nothing(&value))
    }

    fn has_cancel(&self) -> bool {
        self.host.has("cancel")
    }

    async fn cancel(&self, job: &str, slot: i64, manual: bool) -> Result<bool> {
        self.truth("cancel", vec![job.into(), slot.into(), manual.into()]).await
    }

    fn has_forget(&self) -> bool {
        self.host.has("forget")
    }

    async fn forget(&self, job: &str) -> Result<bool> {
        self.truth("forget", vec![job.into()]).await
    }
}
