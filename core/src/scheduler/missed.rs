//! Slots that nobody ran: which they are, and why.
//!
//! Counted, not walked: a year of missed minutes costs the same as one.

use std::collections::BTreeSet;

use crate::backend::contract::Survey;
use crate::events::{Event, MissedEvent, MissedReason};
use crate::lease::model::MissedRange;
use crate::schedule::Schedule;
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::timers::JobId;

/// What this instance knows of a job's missed slots.
#[derive(Default)]
pub(super) struct Missed {
    /// Every slot before this one is recorded, reported, or to be made up for.
    accounted: Option<i64>,
    /// Why slots may come to be missed here, as ranges in the order of their noticing.
    hints: Vec<(i64, i64, MissedReason)>,
    /// Ranges that have been told.
    told: Vec<(i64, i64)>,
    /// The distance of two slots that follow each other (ms), as last seen.
    period: i64,
    /// The store's time of the last survey (ms).
    surveyed: Option<i64>,
    /// On a store that keeps no reports: what lies before this slot was reported, or made up for,
    /// before this instance came.
    before_us: Option<i64>,
}

/// After so long without a survey an instance knows nothing of what the floor has passed (ms).
const IN_TOUCH_MS: i64 = 60_000;

/// How many ranges are remembered.
const REMEMBERED: usize = 64;

impl Missed {
    /// A slot could not be asked for; if it comes to be missed, this is why.
    pub(super) fn hint(&mut self, slot: i64, reason: MissedReason) {
        match self.hints.last_mut() {
            Some((from, to, same)) if *same == reason => {
                *from = (*from).min(slot);
                *to = (*to).max(slot);
            }
            _ => self.hints.push((slot, slot, reason)),
        }
        let extra = self.hints.len().saturating_sub(REMEMBERED);
        self.hints.drain(..extra);
    }

    /// A range has been told; neighbours in time are one range.
    fn tell(&mut self, from: i64, to: i64) {
        match self.told.last_mut() {
            Some((_, last)) if *last < from && from - *last <= self.period => *last = to,
            _ => self.told.push((from, to)),
        }
        let extra = self.told.len().saturating_sub(REMEMBERED);
        self.told.drain(..extra);
    }

    /// Whether a slot that the last survey showed without a record, and that the floor has passed
    /// at the store's time `now` (ms), is ours to report. A record that came and went in between
    /// would have been kept for a while, so an instance in touch with the store knows that the slot
    /// was never run. After a long gap it does not: then those that moved the floor were there.
    fn is_in_touch(&self, now: i64) -> bool {
        self.surveyed.is_some_and(|at| now - at < IN_TOUCH_MS)
    }

    /// Where a store keeps no reports, the newest record of the first survey takes their place: without
    /// it every instance that comes would make up for older and older slots.
    fn begin_after(&mut self, survey: &Survey) -> i64 {
        *self.before_us.get_or_insert(survey.slots.last().copied().unwrap_or(i64::MIN))
    }

    fn reason(&self, slot: i64) -> MissedReason {
        let known = self.hints.iter().rev().find(|(from, to, _)| *from <= slot && slot <= *to);
        known.map_or(MissedReason::NoInstance, |(_, _, reason)| *reason)
    }
}

/// Ranges of instants, half open.
type Ranges = Vec<(i64, i64)>;

/// `ranges` without what lies in `hole`, both half open.
fn without(ranges: Ranges, hole: (i64, i64)) -> Ranges {
    let mut left = Vec::with_capacity(ranges.len() + 1);
    for (from, to) in ranges {
        if hole.1 <= from || to <= hole.0 {
            left.push((from, to));
            continue;
        }
        if from < hole.0 {
            left.push((from, hole.0));
        }
        if hole.1 < to {
            left.push((hole.1, to));
        }
    }
    left
}

/// The newest `limit` slots in `(now - window, now]` that have no record and were not reported,
/// ascending: the set that all replicas compute the same. What was reported once stays out, or the
/// set would slide back into the past with every slot that is made up for.
fn wanted(
    schedule: &Schedule,
    survey: &Survey,
    known: &[(i64, i64)],
    limit: usize,
    window_ms: i64,
) -> BTreeSet<i64> {
    let now = survey.now_ms;
    let oldest = survey
        .since
        .max(survey.floor.saturating_add(1))
        .max(now.saturating_sub(window_ms).saturating_add(1));
    let pause = survey.paused.as_ref().map(|paused| (paused.since, i64::MAX));
    let mut set = BTreeSet::new();
    let mut before = now.saturating_add(1);
    while set.len() < limit {
        let Some(slot) = schedule.prev(before).filter(|slot| *slot >= oldest) else { break };
        before = slot;
        let mut holes = known.iter().chain(&pause);
        if let Some((from, _)) = holes.find(|(from, to)| *from <= slot && slot < *to) {
            before = slot.min(*from);
            continue;
        }
        if survey.slots.binary_search(&slot).is_err() {
            set.insert(slot);
        }
    }
    set
}

impl Driver {
    /// Accounts for every slot that is too late: recorded, to be made up for, or reported once.
    pub(super) fn account(&mut self, id: JobId, survey: &Survey) {
        let leases = self.leases;
        let remembers = self.guard.remembers_missed();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before_us = (!remembers).then(|| job.missed.begin_after(survey));
        let schedule = &job.spec.schedule;
        let settings = job.settings();
        let limit = usize::try_from(settings.catch_up_limit).unwrap_or(0);
        let late_end = job.first_in_time(survey.now_ms);
        let horizon = survey.since.max(survey.floor.saturating_add(1));
        let mut known = known_ranges(&job.missed, survey);
        known.extend(before_us.map(|slot| (horizon, slot)));
        let mut set = wanted(schedule, survey, &known, limit, settings.catch_up_window_ms);
        set.retain(|slot| *slot < late_end);
        let is_known = |slot: i64| known.iter().any(|(from, to)| *from <= slot && slot < *to);
        let in_touch = job.missed.is_in_touch(survey.now_ms);
        job.missed.surveyed = Some(survey.now_ms);
        let dropped: Vec<i64> = job
            .catch_up
            .iter()
            .copied()
            .filter(|slot| !set.contains(slot) && !is_known(*slot))
            .filter(|slot| *slot > survey.floor || in_touch)
            .filter(|slot| survey.slots.binary_search(slot).is_err() && !job.asked.contains(slot))
            .collect();
        let mut oldest = horizon;
        if !remembers {
            // Such a store does not know what was reported: only the gap up to now counts.
            oldest = survey.slots.last().map_or(oldest, |newest| oldest.max(*newest));
        }
        let from = job.missed.accounted.unwrap_or(oldest).max(oldest);
        let mut open: Ranges = if from < late_end { vec![(from, late_end)] } else { Vec::new() };
        let recorded = survey.slots.iter().chain(survey.runs.iter().map(|run| &run.slot));
        for slot in recorded.chain(&set) {
            open = without(open, (*slot, slot.saturating_add(1)));
        }
        for hole in known {
            open = without(open, hole);
        }
        job.missed.accounted = Some(job.missed.accounted.unwrap_or(late_end).max(late_end));
        if leases {
            // What is on its way stays in the set until it is answered.
            set.extend(job.catch_up.iter().filter(|slot| job.asked.contains(slot)));
            job.catch_up = set;
        }
        let mut reports = reports(schedule, &job.missed, survey, &open);
        for slot in dropped {
            reports.push((MissedReason::Dropped, slot, slot, 1));
        }
        job.missed.hints.retain(|(_, to, _)| *to >= late_end);
        // What the store has trimmed need not be remembered here.
        job.missed.told.retain(|(_, to)| *to >= horizon);
        for (reason, first, last, count) in reports {
            self.report(id, reason, first, last, count);
        }
    }

    /// Reports a single slot.
    pub(super) fn report_one(&mut self, id: JobId, slot: i64, reason: MissedReason) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.missed.period = slot - job.spec.schedule.prev(slot).unwrap_or(slot);
        self.report(id, reason, slot, slot, 1);
    }

    /// A slot that was to be made up for is refused, for the floor has passed it.
    pub(super) fn floor_passed(&mut self, id: JobId, slot: i64, now: i64) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.missed.is_in_touch(now) && job.catch_up.contains(&slot) {
            self.report_one(id, slot, MissedReason::Dropped);
        }
    }

    fn report(&mut self, id: JobId, reason: MissedReason, from: i64, to: i64, count: u64) {
        let by = self.instance_id.to_string();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.missed.tell(from, to);
        let name = job.name.clone();
        let range = MissedRange {
            from,
            to,
            count,
            reason: reason.as_str().to_owned(),
            by,
            at: self.clock.wall_ms(),
        };
        // Told before it is kept: a record without an event would be silence.
        self.emit(Event::Missed(MissedEvent { job: name.to_string(), range: range.clone() }));
        if !self.leases || reason == MissedReason::Paused {
            return;
        }
        let guard = self.guard.clone();
        let mailbox = self.mailbox.clone();
        let working = crate::clock::busy(&*self.clock);
        tokio::spawn(async move {
            if let Err(error) = guard.record_missed(&name, &range).await {
                mailbox.post(Message::Failed { job: Some(name), error });
            }
            drop(working);
        });
    }
}

/// What has been reported, here or by others, as half-open ranges.
fn known_ranges(missed: &Missed, survey: &Survey) -> Ranges {
    let stored = survey.missed.iter().map(|range| (range.from, range.to.saturating_add(1)));
    let told = missed.told.iter().map(|(from, to)| (*from, to.saturating_add(1)));
    stored.chain(told).collect()
}

/// The open ranges as reports: one for each reason, with its first and last slot and their count.
fn reports(
    schedule: &Schedule,
    missed: &Missed,
    survey: &Survey,
    open: &[(i64, i64)],
) -> Vec<(MissedReason, i64, i64, u64)> {
    let paused_since = survey.paused.as_ref().map_or(i64::MAX, |paused| paused.since);
    let mut cuts: Vec<i64> = vec![paused_since];
    for (from, to, _) in &missed.hints {
        cuts.extend([*from, to.saturating_add(1)]);
    }
    let mut reports: Vec<(MissedReason, i64, i64, u64)> = Vec::new();
    for (from, to) in open {
        let mut edges: Vec<i64> = cuts.iter().copied().filter(|c| from < c && c < to).collect();
        edges.extend([*from, *to]);
        edges.sort_unstable();
        edges.dedup();
        for pair in edges.windows(2) {
            let count = schedule.count(pair[0], pair[1]);
            let first = schedule.next(pair[0].saturating_sub(1));
            let (Some(first), Some(last)) = (first, schedule.prev(pair[1])) else { continue };
            if count == 0 {
                continue;
            }
            let reason =
                if first >= paused_since { MissedReason::Paused } else { missed.reason(first) };
            match reports.iter_mut().find(|(same, ..)| *same == reason) {
                Some(report) => {
                    report.1 = report.1.min(first);
                    report.2 = report.2.max(last);
                    report.3 += count;
                }
                None => reports.push((reason, first, last, count)),
            }
        }
    }
    reports
}
