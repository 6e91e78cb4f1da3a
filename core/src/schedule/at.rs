//! `at`: one slot.

use jiff::Timestamp;

/// One instant, known to every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    when: i64,
}

impl At {
    /// One slot at `when_ms`, ms since the Unix epoch, any value.
    pub fn new(when_ms: i64) -> At {
        At { when: when_ms }
    }

    /// The slot, in ms since the Unix epoch.
    pub fn when_ms(&self) -> i64 {
        self.when
    }

    pub(super) fn first_from(&self, from: i64) -> Option<i64> {
        (self.when >= from).then_some(self.when)
    }

    pub(super) fn last_until(&self, until: i64) -> Option<i64> {
        (self.when <= until).then_some(self.when)
    }

    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        u64::from(from <= self.when && self.when < to)
    }

    pub(super) fn fingerprint(&self) -> String {
        format!("at {}", self.when)
    }

    pub(super) fn describe(&self) -> String {
        match Timestamp::from_millisecond(self.when) {
            Ok(instant) => format!("once at {instant}"),
            // Beyond the years that a calendar can name.
            Err(_) => format!("once at {} ms since 1970-01-01T00:00:00Z", self.when),
        }
    }
}

#[cfg(test)]
#[path = "at_tests.rs"]
mod tests;
