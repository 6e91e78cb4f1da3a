//! Registering a job: what the fleet agrees upon about it.

use crate::backend::contract::{CatchUp, JobLimits};
use crate::lease::rules::Answer;
use crate::lease::rules::draft::Draft;

impl Draft<'_> {
    pub(super) fn register(&mut self, limits: &JobLimits) -> Answer {
        self.register_schedule(limits.schedule.as_deref());
        let header = &mut self.header;
        if let Some(tables) = &limits.zone_tables {
            header.zone_tables.clone_from(tables);
        }
        header.history_size = limits.history_size;
        header.history_ttl_ms = limits.history_ttl_ms;
        // What must be left is what any replica may still ask for: the greatest that was seen.
        header.keep_ms = header.keep_ms.max(keep_ms(limits));
        header.keep_slots = header.keep_slots.max(keep_slots(limits));
        header.keep_window_ms = header.keep_window_ms.max(limits.keep_window_ms.unwrap_or(0));
        Answer::Bool(true)
    }

    /// `None` creates the job if need be and otherwise has no opinion about its definition.
    fn register_schedule(&mut self, schedule: Option<&str>) {
        let header = &mut self.header;
        if header.since == 0 {
            schedule.unwrap_or_default().clone_into(&mut header.schedule);
            header.since = self.now;
            return;
        }
        // An old replica that restarts in a rolling deploy brings the previous definition back for
        // a moment: that must not restart the horizon.
        let Some(schedule) = schedule else { return };
        if schedule == header.schedule || schedule == header.schedule_prev {
            return;
        }
        // Of two replicas that disagree about the one instant of an `at` job the first one wins,
        // until that instant has passed.
        if let (Some(stored), Some(_)) = (at_slot(&header.schedule), at_slot(schedule))
            && stored.saturating_add(header.keep_ms) > self.now
        {
            return;
        }
        header.schedule_prev = std::mem::replace(&mut header.schedule, schedule.to_owned());
        header.since = self.now;
    }
}

/// As long as this a claim, a heartbeat or a finish may still be under way.
pub(crate) fn keep_ms(limits: &JobLimits) -> i64 {
    let claims = limits.jitter_ms.saturating_add(limits.max_late_ms);
    claims.max(limits.lease_ms.unwrap_or(0)).max(limits.keep_ms.unwrap_or(0))
}

/// So many of the newest slots may still be asked for by a catch-up.
pub(crate) fn keep_slots(limits: &JobLimits) -> i64 {
    let latest = i64::from(limits.catch_up == Some(CatchUp::Latest));
    limits.keep_slots.unwrap_or(0).max(latest)
}

/// The one instant in the fingerprint of an `at` schedule.
fn at_slot(schedule: &str) -> Option<i64> {
    schedule.strip_prefix("at ").and_then(|slot| slot.parse().ok())
}
