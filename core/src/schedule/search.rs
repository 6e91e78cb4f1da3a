//! From wall times to instants: walks the spans of a zone and applies the two readings of a
//! changed clock (see the essay of the module above).

use jiff::civil::date;

use super::calendar::{DAY, day_number};
use super::wall::Wall;
use super::zone::{CYCLE, CYCLE_START, Span, Zone};

/// A gap of this many seconds or more is a correction of the calendar: no make-up slot.
const CORRECTION: i64 = 3 * 3600;

/// The first and the last second that may be a slot. A day is left at both ends, so that every
/// language can name the wall time in every zone.
pub(super) fn years() -> (i64, i64) {
    (day_number(date(1, 1, 2)) * DAY, day_number(date(9999, 12, 30)) * DAY)
}

/// A set of wall times in a zone.
pub(super) struct Search<'a> {
    pub(super) wall: &'a Wall,
    pub(super) zone: &'a Zone,
    /// A fixed-time job: each wall time once. Otherwise real time is followed.
    pub(super) fixed: bool,
}

impl Search<'_> {
    /// The first slot in `[from, until)`, all in seconds since the epoch.
    pub(super) fn first(&self, from: i64, until: i64) -> Option<i64> {
        let (from, until) = clamp(from, until);
        let mut number = self.zone.span_number(from);
        while let Some(span) = self.zone.span(number).filter(|span| span.start < until) {
            if span.start >= from && self.makes_up(&span) {
                return Some(span.start);
            }
            let (low, high) = self.walls(&span, from, until);
            if let Some(wall) = self.wall.first(low, high) {
                return Some(wall - span.offset);
            }
            number += 1;
        }
        None
    }

    /// The last slot in `[from, until)`.
    pub(super) fn last(&self, from: i64, until: i64) -> Option<i64> {
        let (from, until) = clamp(from, until);
        if from >= until {
            return None;
        }
        let mut number = self.zone.span_number(until - 1);
        while let Some(span) = self.zone.span(number).filter(|span| span.end > from) {
            let (low, high) = self.walls(&span, from, until);
            if let Some(wall) = self.wall.last(low, high) {
                return Some(wall - span.offset);
            }
            if span.start >= from && self.makes_up(&span) {
                return Some(span.start);
            }
            number = number.checked_sub(1)?;
        }
        None
    }

    /// How many slots lie in `[from, until)`.
    pub(super) fn count(&self, from: i64, until: i64) -> u64 {
        let (from, until) = clamp(from, until);
        if from >= until {
            return 0;
        }
        // Once the zone only follows its rule, 400 years have as many slots as any other 400.
        let start = from.max(CYCLE_START);
        let cycles = (until - start).div_euclid(CYCLE);
        if cycles <= 1 {
            return self.count_spans(from, until);
        }
        let cycle = self.count_spans(start, start + CYCLE);
        self.count_spans(from, start)
            + cycle * cycles.unsigned_abs()
            + self.count_spans(start + cycles * CYCLE, until)
    }

    fn count_spans(&self, from: i64, until: i64) -> u64 {
        let mut count = 0;
        let mut number = self.zone.span_number(from);
        while let Some(span) = self.zone.span(number).filter(|span| span.start < until) {
            let (low, high) = self.walls(&span, from, until);
            count += self.wall.count(low, high);
            if span.start >= from && self.makes_up(&span) {
                // One slot with the wall time at the end of the gap, where that matches too.
                let end = span.start + span.offset;
                count += u64::from(self.wall.first(end, end + 1).is_none());
            }
            number += 1;
        }
        count
    }

    /// The wall times of a span that are slots where they match, within `[from, until)`.
    fn walls(&self, span: &Span, from: i64, until: i64) -> (i64, i64) {
        let low = from.max(span.start) + span.offset;
        let high = until.min(span.end) + span.offset;
        match self.fixed {
            // A wall time that has been does not count again.
            true => (low.max(span.reached), high),
            false => (low, high),
        }
    }

    /// Whether the span begins with a gap that swallowed a matching wall time.
    fn makes_up(&self, span: &Span) -> bool {
        let gap = 1..CORRECTION;
        self.fixed
            && gap.contains(&span.jump)
            && self.wall.first(span.reached, span.start + span.offset).is_some()
    }
}

fn clamp(from: i64, until: i64) -> (i64, i64) {
    let (first, last) = years();
    (from.clamp(first, last + 1), until.clamp(first, last + 1))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
