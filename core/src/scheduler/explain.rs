//! Why a slot did or did not run, in words.

use crate::backend::contract::{RunRecord, Survey};
use crate::lease::model::Status;
use crate::scheduler::Explanation;
use crate::scheduler::state::JobSpec;

/// Explains a slot from its records and from what the store knows of the job.
pub(super) fn explain(
    name: &str,
    slot: i64,
    records: Vec<RunRecord>,
    survey: &Survey,
    job: Option<&JobSpec>,
) -> Explanation {
    let scheduled = records.iter().find(|record| !record.manual);
    let (outcome, reason, why) = match scheduled {
        Some(record) => recorded(record),
        None => unrecorded(slot, survey, job),
    };
    let at = jiff::Timestamp::from_millisecond(slot)
        .map_or_else(|_| slot.to_string(), |t| t.to_string());
    let text = format!("Slot {at} of job {name:?}: {why}.");
    Explanation { outcome: outcome.to_owned(), reason, records, text }
}

fn recorded(record: &RunRecord) -> (&'static str, String, String) {
    let by = &record.by;
    let attempt = record.attempt.unwrap_or(1);
    let tries = if attempt > 1 { format!(" as attempt {attempt}") } else { String::new() };
    let status = record.status.as_str().to_owned();
    match record.status {
        Status::Succeeded => ("ran", status, format!("{by} ran it{tries}, and it succeeded")),
        Status::Failed => {
            let error = record.error.as_ref().map_or("", |error| error.message.as_str());
            ("ran", status, format!("{by} ran it{tries}, and it failed: {error}"))
        }
        Status::TimedOut => ("ran", status, format!("{by} ran it{tries}, and it took too long")),
        Status::Cancelled => ("ran", status, format!("{by} began it{tries}, and it was cancelled")),
        Status::Skipped => (
            "skipped",
            "overlap".to_owned(),
            "it was skipped, as another run was unfinished".to_owned(),
        ),
        Status::Lost => {
            let why = format!(
                "{by} began it{tries} and was gone before its end; nobody may take it over"
            );
            ("lost", status, why)
        }
        Status::Running => ("running", status, format!("{by} is running it{tries}")),
        Status::Stalled => {
            let why =
                format!("{by} began it{tries} and seems to be gone; another replica takes it over");
            ("running", status, why)
        }
        Status::Unfinished => {
            ("running", status, format!("{by} claimed it, and no result is known"))
        }
    }
}

fn unrecorded(slot: i64, survey: &Survey, job: Option<&JobSpec>) -> (&'static str, String, String) {
    let fact = |outcome, reason: &str, why: String| (outcome, reason.to_owned(), why);
    if job.is_some_and(|job| job.schedule.next(slot - 1) != Some(slot)) {
        return fact(
            "not_a_slot",
            "schedule",
            "the schedule has no slot at this instant".to_owned(),
        );
    }
    if let Some(range) = survey.missed.iter().find(|range| range.from <= slot && slot <= range.to) {
        let why = format!("nobody ran it ({}), as {} reported", range.reason, range.by);
        return fact("missed", &range.reason, why);
    }
    if let Some(paused) = survey.paused.as_ref().filter(|paused| paused.since <= slot) {
        let why = paused.reason.as_deref().unwrap_or("no reason given");
        return fact("paused", "paused", format!("the job is paused by {} ({why})", paused.by));
    }
    if slot > survey.now_ms {
        return fact("not_yet", "future", "it has not come yet".to_owned());
    }
    if survey.since == 0 {
        return fact("unknown", "not_registered", "the store does not know the job".to_owned());
    }
    if slot < survey.since {
        let why = "it lies before the job's definition was first registered".to_owned();
        return fact("missed", "not_registered", why);
    }
    if slot <= survey.floor {
        let why = "its record has been trimmed; a longer historySize keeps more".to_owned();
        return fact("unknown", "trimmed", why);
    }
    fact(
        "unknown",
        "unrecorded",
        "it has no record; it may still be claimed or made up for".to_owned(),
    )
}
