//! What is known of a server's clock between two readings of it.
//!
//! What is not known of the time between the server's stamp and our reading of it is taken off: an
//! older reading is safe, a later one would not be. (By how much two clocks drift apart in a minute
//! lies far within the margin that a holder takes off its lease.)

/// What is known of the server's clock: it showed `shown` at some instant of our monotonic clock in
/// `[earliest, latest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) shown: i64,
    pub(super) earliest: i64,
    pub(super) latest: i64,
    /// A test's clock, which is exact and has nothing to do with the server's.
    pub(super) given: bool,
}

impl Reading {
    /// The store's time for a decision at our `mono` (ms), on a state that was stored at
    /// `stored_at` by the server's clock: never later than what the server's clock shows.
    ///
    /// A state that seems to come from the future, by no more than what is unknown of the clock, is
    /// the better reading of the two: what it granted must not seem to have been granted later.
    pub(super) fn now(&self, mono: i64, stored_at: Option<i64>) -> i64 {
        if self.given {
            return self.shown;
        }
        let least = self.least(mono);
        match stored_at {
            Some(at) if at > least && at <= self.most(mono) => at,
            _ => least,
        }
    }

    /// What the server's clock shows at least. Readings of our clock are rounded down, so a
    /// millisecond of what has passed may not have passed.
    fn least(&self, mono: i64) -> i64 {
        self.shown + (mono - self.latest - 1).max(0)
    }

    /// What it shows at most, if its clock is at most a thousandth faster than ours.
    fn most(&self, mono: i64) -> i64 {
        let passed = (mono - self.earliest).max(0);
        self.shown + passed + passed / 1_000 + 1
    }

    /// This reading together with one before it: both are right, and the one that shows more tells
    /// more, unless the clock was set back in between.
    pub(super) fn after(self, before: Reading, mono: i64) -> Reading {
        let shown = before.least(mono);
        if shown > self.least(mono) && shown <= self.most(mono) {
            return Reading { shown, latest: mono, ..self };
        }
        self
    }
}

/// How long a reading serves that came with something else (ms): not longer than a clock that is set
/// stays unnoticed anyway, long enough that many claims in a row ask once.
pub(super) const OLDEST_MS: i64 = 1_000;

/// What was read last.
#[derive(Default)]
pub(super) struct Last {
    reading: Option<Reading>,
    /// How many connections had been lost before it.
    losses: u64,
    /// A call got no answer since.
    is_doubtful: bool,
}

impl Last {
    /// The reading, if it still holds at our `mono` (ms).
    pub(super) fn fresh(&self, mono: i64, oldest_ms: i64, losses: u64) -> Option<Reading> {
        let holds = !self.is_doubtful && self.losses == losses;
        self.reading.filter(|one| holds && mono - one.latest < oldest_ms)
    }

    /// Keeps what was read after so many losses, and says what is known now.
    pub(super) fn keep(&mut self, read: Reading, mono: i64, losses: u64) -> Reading {
        let reading = self.reading.map_or(read, |before| read.after(before, mono));
        *self = Last { reading: Some(reading), losses, is_doubtful: false };
        reading
    }

    /// A call got no answer: what answers the next one may be another server.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
