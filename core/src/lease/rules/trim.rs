//! Trimming: what is kept of what has ended, so that a job stays bounded and no slot re-opens.

use crate::lease::model::{JobHeader, RunKey};
use crate::lease::rules::draft::Draft;
use crate::mends::{self, Mend};

/// With no more ended records than are kept, and none that age, there is nothing to trim.
pub(crate) fn may_trim(header: &JobHeader, ended: i64) -> bool {
    ended > 0 && (ended > header.history_size || header.history_ttl_ms.is_some())
}

impl Draft<'_> {
    pub(super) fn drop_record(&mut self, key: RunKey) {
        if !key.manual {
            self.header.floor = self.header.floor.max(key.slot);
        }
        self.remove(key);
    }

    /// After a change: of the ended records keep the newest `history_size` and none older than
    /// `history_ttl_ms`, but never drop one that a late claim could still ask for.
    pub(super) fn trim(&mut self) {
        if !self.is_changed() || !may_trim(&self.header, self.unseen.ended + self.count_ended()) {
            return;
        }
        for key in self.trimmable() {
            self.drop_record(key);
        }
    }

    fn trimmable(&self) -> Vec<RunKey> {
        let header = &self.header;
        let (mut newer, mut newer_scheduled) = (0, 0);
        let mut unseen = self.unseen.newer_than;
        let mut keys = Vec::new();
        for run in self.all().into_iter().rev() {
            if unseen.is_some_and(|oldest| run.key() <= oldest) {
                newer += self.unseen.ended;
                newer_scheduled += self.unseen.scheduled;
                unseen = None;
            }
            let rank_scheduled = newer_scheduled;
            newer_scheduled += i64::from(!run.manual);
            if run.is_unfinished() {
                continue;
            }
            let rank = newer;
            newer += 1;
            let ended_at = run.ended_at.unwrap_or(run.at);
            let aged =
                header.history_ttl_ms.is_some_and(|ttl| ended_at.saturating_add(ttl) <= self.now);
            let young = run.slot.max(ended_at).saturating_add(header.keep_ms) > self.now
                && !mends::is_out(Mend::F02);
            let wanted = !run.manual
                && rank_scheduled < header.keep_slots
                && run.slot.saturating_add(header.keep_window_ms) > self.now;
            if (rank >= header.history_size || aged) && !young && !wanted {
                keys.push(run.key());
            }
        }
        keys
    }
}
