//! What a script is sent: from the words of the contract to KEYS and ARGV.

use redis::Cmd;

use super::keys;
use super::script::{Operation, Script};
use crate::backend::contract::{
    ClaimInput, ClaimKind, JobLimits, Overlap, PauseRequest, RunClaim, StoredResult,
};
use crate::error::{Error, Result};
use crate::lease::model::{MissedRange, Status};
use crate::lease::rules::{DEFAULT_LEASE_MS, keep_ms, keep_slots};

/// Numbers of Lua are doubles: whole up to 2^53. Half of that leaves room for a sum of two.
const GREATEST: i64 = 1 << 52;

/// One call of a script.
pub(super) struct Ask {
    pub(super) operation: Operation,
    keys: [String; 5],
    args: Vec<String>,
}

/// Where a job is kept.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) prefix: &'a str,
    pub(super) namespace: &'a str,
    pub(super) job: &'a str,
}

impl Ask {
    fn new(operation: Operation, place: Place<'_>, args: Vec<String>) -> Ask {
        let keys = keys::of_job(place.prefix, place.namespace, place.job);
        Ask { operation, keys, args }
    }

    /// Gives the time along (ms), for scripts on a given clock.
    pub(super) fn at(&mut self, now: i64) {
        self.args.push(now.to_string());
    }

    /// The call by the script's hash.
    pub(super) fn by_hash(&self, script: &Script) -> Cmd {
        self.command("EVALSHA", &script.hash)
    }

    /// The call with the script's text.
    pub(super) fn by_text(&self, script: &Script) -> Cmd {
        self.command("EVAL", &script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let count = self.operation.key_count();
        let mut command = redis::cmd(name);
        command.arg(script).arg(count).arg(&self.keys[..count]).arg(&self.args);
        command
    }

    pub(super) fn claim(place: Place<'_>, claim: &RunClaim) -> Result<Ask> {
        let input = &claim.input;
        let mut args = claimed(input)?;
        let overlap = if input.overlap == Some(Overlap::Skip) { "skip" } else { "allow" };
        let kind = match claim.kind {
            ClaimKind::Slot => "slot",
            ClaimKind::Backup => "backup",
            ClaimKind::CatchUp => "catch_up",
        };
        args.extend([
            number(lease_ms(input)),
            overlap.to_owned(),
            optional(input.max_early_ms),
            kind.to_owned(),
            number(claim.max_takeovers),
            optional(claim.not_after_ms),
        ]);
        Ok(Ask::new(Operation::Claim, place, args))
    }

    pub(super) fn claim_only(place: Place<'_>, input: &ClaimInput) -> Result<Ask> {
        let mut args = claimed(input)?;
        args.push(optional(input.max_early_ms));
        Ok(Ask::new(Operation::ClaimOnly, place, args))
    }

    pub(super) fn claim_manual(place: Place<'_>, input: &ClaimInput) -> Result<Ask> {
        let mut args = claimed(input)?;
        let skips = input.overlap == Some(Overlap::Skip) && input.force != Some(true);
        args.extend([
            number(lease_ms(input)),
            truth(input.lease_ms.is_some_and(|lease_ms| lease_ms > 0)),
            truth(skips),
            number(input.asked_at.unwrap_or(input.slot)),
        ]);
        Ok(Ask::new(Operation::ClaimManual, place, args))
    }

    pub(super) fn heartbeat(
        place: Place<'_>,
        run_slot: i64,
        token: &str,
        lease_ms: i64,
    ) -> Result<Ask> {
        let args = vec![slot(run_slot)?, token.to_owned(), number(lease_ms.max(1))];
        Ok(Ask::new(Operation::Heartbeat, place, args))
    }

    pub(super) fn finish(
        place: Place<'_>,
        run_slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
        channel: &str,
    ) -> Result<Ask> {
        let body = result.map(json).transpose()?;
        let args = vec![
            slot(run_slot)?,
            token.to_owned(),
            status.as_str().to_owned(),
            optional_text(body.as_deref()),
            channel.to_owned(),
            place.job.to_owned(),
        ];
        Ok(Ask::new(Operation::Finish, place, args))
    }

    pub(super) fn release(
        place: Place<'_>,
        run_slot: i64,
        token: &str,
        channel: &str,
    ) -> Result<Ask> {
        let args =
            vec![slot(run_slot)?, token.to_owned(), channel.to_owned(), place.job.to_owned()];
        Ok(Ask::new(Operation::Release, place, args))
    }

    pub(super) fn cancel(place: Place<'_>, run_slot: i64, manual: bool) -> Result<Ask> {
        Ok(Ask::new(Operation::Cancel, place, vec![slot(run_slot)?, truth(manual)]))
    }

    pub(super) fn save_result(
        place: Place<'_>,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<Ask> {
        let args = vec![
            slot(result.slot)?,
            truth(result.manual),
            result.by.clone(),
            result.status.as_str().to_owned(),
            number(result.started_at),
            number(result.attempt.unwrap_or(1)),
            json(result)?,
            number(history_size),
            optional(history_ttl_ms),
        ];
        Ok(Ask::new(Operation::SaveResult, place, args))
    }

    pub(super) fn register(place: Place<'_>, limits: &JobLimits) -> Ask {
        let args = vec![
            optional_text(limits.schedule.as_deref()),
            optional_text(limits.zone_tables.as_deref()),
            number(limits.history_size),
            optional(limits.history_ttl_ms),
            number(keep_ms(limits)),
            number(keep_slots(limits)),
            number(limits.keep_window_ms.unwrap_or(0)),
        ];
        Ask::new(Operation::Register, place, args)
    }

    pub(super) fn record_missed(place: Place<'_>, range: &MissedRange) -> Result<Ask> {
        let args = vec![
            slot(range.from)?,
            slot(range.to)?,
            range.count.to_string(),
            range.reason.clone(),
            range.by.clone(),
        ];
        Ok(Ask::new(Operation::RecordMissed, place, args))
    }

    pub(super) fn set_paused(place: Place<'_>, request: Option<&PauseRequest>) -> Ask {
        let by = request.map(|request| request.by.clone()).unwrap_or_default();
        let reason = request.and_then(|request| request.reason.as_deref());
        let args = vec![truth(request.is_some()), by, optional_text(reason)];
        Ask::new(Operation::SetPaused, place, args)
    }

    pub(super) fn history(place: Place<'_>, limit: usize) -> Ask {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX).clamp(1, 1_000_000);
        Ask::new(Operation::History, place, vec![limit.to_string()])
    }

    /// A call without arguments: survey, active, forget.
    pub(super) fn bare(operation: Operation, place: Place<'_>) -> Ask {
        Ask::new(operation, place, Vec::new())
    }
}

/// What all claims begin with.
fn claimed(input: &ClaimInput) -> Result<Vec<String>> {
    Ok(vec![
        slot(input.slot)?,
        input.token.clone(),
        input.instance_id.clone(),
        number(input.history_size),
        optional(input.history_ttl_ms),
    ])
}

fn lease_ms(input: &ClaimInput) -> i64 {
    input.lease_ms.unwrap_or(DEFAULT_LEASE_MS).max(1)
}

/// An instant that names a run: it must come back as it was.
fn slot(slot: i64) -> Result<String> {
    if (-GREATEST..=GREATEST).contains(&slot) {
        return Ok(slot.to_string());
    }
    Err(Error::option(format!(
        "the slot is {slot}; Redis keeps instants within {GREATEST} ms of the Unix epoch, some \
         140,000 years"
    )))
}

/// A length or a bound: beyond 140,000 years all are the same.
fn number(number: i64) -> String {
    number.clamp(-GREATEST, GREATEST).to_string()
}

fn optional(optional: Option<i64>) -> String {
    optional.map(number).unwrap_or_default()
}

fn optional_text(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| format!("+{text}"))
}

fn truth(truth: bool) -> String {
    i64::from(truth).to_string()
}

fn json(result: &StoredResult) -> Result<String> {
    serde_json::to_string(result)
        .map_err(|error| Error::option(format!("the result cannot be written as JSON: {error}")))
}
