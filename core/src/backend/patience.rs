//! How long a call about a lease may take.
//!
//! A store that is overloaded answers late, and a call that is given up then is made again: that is
//! one more for it to answer, and the answer on its way was for nothing. So silence makes patient: each
//! call that got no answer lengthens the next one's deadline by one base, a sixth of the lease, up to
//! half of it; prompt answers shorten it again. Half a lease still leaves a heartbeat, sent at a third
//! of the lease, time to be answered before its holder would stop.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::lease::hold::call_deadline;

/// Up to so many times the base.
const MOST: i64 = 3;

/// What one kind of call has met lately.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// By how many bases a deadline is longer than one.
    more: AtomicI64,
}

impl Patience {
    /// How long the next call may take (ms); `lease_ms` is the shortest lease that it is about.
    pub(super) fn deadline(&self, lease_ms: Option<i64>) -> i64 {
        call_deadline(lease_ms) * (1 + self.more.load(Ordering::Relaxed))
    }

    /// A call got no answer within its deadline.
    pub(super) fn silent(&self) {
        let longer = |more| (more < MOST - 1).then_some(more + 1);
        let _most = self.more.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// A call was answered after so long (ms).
    pub(super) fn answered(&self, lease_ms: Option<i64>, took_ms: i64) {
        // What took longer than this would be close to its deadline again with a shorter one.
        let prompt = took_ms <= call_deadline(lease_ms) / 2;
        let shorter = |more| (prompt && more > 0).then_some(more - 1);
        let _least = self.more.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }
}

#[cfg(test)]
mod tests {
    use super::Patience;
    use crate::lease::hold::{deadline, heartbeat_every};

    #[test]
    fn a_call_takes_a_sixth_of_its_lease_and_at_most_five_seconds() {
        let patience = Patience::default();
        assert_eq!(patience.deadline(Some(12_000)), 2_000);
        assert_eq!(patience.deadline(Some(600_000)), 5_000);
        assert_eq!(patience.deadline(None), 5_000);
    }

    #[test]
    fn silence_lengthens_it_up_to_half_of_the_lease_and_prompt_answers_shorten_it() {
        let patience = Patience::default();
        for expected in [2_000, 4_000, 6_000, 6_000] {
            assert_eq!(patience.deadline(Some(12_000)), expected);
            patience.silent();
        }
        patience.answered(Some(12_000), 1_001);
        assert_eq!(patience.deadline(Some(12_000)), 6_000, "that was not prompt");
        for expected in [4_000, 2_000, 2_000] {
            patience.answered(Some(12_000), 1_000);
            assert_eq!(patience.deadline(Some(12_000)), expected);
        }
    }

    #[test]
    fn the_most_patient_heartbeat_ends_before_its_holder_stops() {
        for lease_ms in [1_000, 3_000, 30_000, 90_000, 600_000] {
            let patience = Patience::default();
            (0..9).for_each(|_| patience.silent());
            let ends = heartbeat_every(lease_ms) + patience.deadline(Some(lease_ms));
            assert!(ends < deadline(0, lease_ms), "{lease_ms}: {ends}");
        }
    }
}
