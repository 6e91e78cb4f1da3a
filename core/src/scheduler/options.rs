//! What a user may set, what it defaults to, and what is refused.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::contract::{Backend, CatchUp, JobLimits, Overlap};
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::host::names::{Naming, nearest};
use crate::random::Random;
use crate::schedule::{Schedule, duration, zone_tables};

/// Where runs are claimed.
#[derive(Clone)]
pub enum BackendSource {
    /// A URL.
    Url(String),
    /// An object, possibly shared by several schedulers.
    Object(Arc<SharedBackend>),
}

pub use crate::backend::shared::SharedBackend;

/// Options of a scheduler; everything is optional.
#[derive(Clone, Default)]
pub struct SchedulerOptions {
    /// The store; without it `ANARCHON_URL`, without that the embedded default.
    pub backend: Option<BackendSource>,
    /// Part of every key of the built-in stores; `ANARCHON_NAMESPACE`, else `default`.
    pub namespace: Option<String>,
    /// Default `host:pid:random`, drawn when the scheduler starts.
    pub instance_id: Option<String>,
    /// The zone of cron jobs that name none; default `UTC`, never the machine's.
    pub timezone: Option<String>,
    /// Defaults of all jobs.
    pub defaults: JobOptions,
    /// The places; default 100. 0 registers and reads only.
    pub max_concurrent_runs: Option<i64>,
    /// How long `start` tries to reach a store (ms); default 10 000.
    pub start_timeout_ms: Option<i64>,
    /// A clock for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// Randomness for tests.
    pub random: Option<Arc<Random>>,
    /// How names are written in messages.
    pub naming: Naming,
}

/// The options of a scheduler that are plain values, in the order of the documentation.
const SCHEDULER_OPTIONS: [&str; 6] =
    ["namespace", "instanceId", "timezone", "defaults", "maxConcurrentRuns", "startTimeoutMs"];

impl SchedulerOptions {
    /// The camelCase names of the options that are plain values.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SCHEDULER_OPTIONS.into_iter()
    }

    /// Reads the options that are plain values, as a user wrote them; `others` names those that
    /// the language's own layer takes (`backend`, `clock` …), for the message about an unknown one.
    ///
    /// # Errors
    /// `INVALID_OPTION`.
    pub fn from_json(
        given: &Map<String, Value>,
        others: &[&str],
        naming: Naming,
    ) -> Result<SchedulerOptions> {
        let mut options = SchedulerOptions { naming, ..SchedulerOptions::default() };
        for (name, value) in given {
            let known = SCHEDULER_OPTIONS.iter().find(|camel| naming.write(camel) == *name);
            let Some(camel) = known else {
                let names: Vec<String> =
                    SCHEDULER_OPTIONS.iter().chain(others).map(|n| naming.write(n)).collect();
                return Err(Error::option(format!(
                    "there is no scheduler option {name:?}{}; the options are {}",
                    nearest(name, &names),
                    names.join(", ")
                )));
            };
            if value.is_null() {
                continue;
            }
            let field = Field { name: naming.write(camel), value, naming };
            match *camel {
                "namespace" => field.text(&mut options.namespace)?,
                "instanceId" => field.text(&mut options.instance_id)?,
                "timezone" => field.text(&mut options.timezone)?,
                "maxConcurrentRuns" => {
                    field.count(0, 1_000_000, &mut options.max_concurrent_runs)?;
                }
                "startTimeoutMs" => field.duration(0, &mut options.start_timeout_ms)?,
                _ => {
                    let given =
                        value.as_object().ok_or_else(|| field.wrong("an object of job options"))?;
                    options.defaults = JobOptions::from_json(given, naming)
                        .map_err(|error| error.in_context(&field.name))?;
                }
            }
        }
        Ok(options)
    }
}

/// Further tries by the same holder.
#[derive(Clone, Debug, PartialEq)]
pub struct Retries {
    /// How many further tries.
    pub attempts: i64,
    /// The wait before the first of them (ms).
    pub backoff_ms: i64,
    /// What the wait is multiplied with each time.
    pub factor: f64,
    /// The longest wait (ms).
    pub max_backoff_ms: i64,
}

/// Options of a job as given; what is `None` has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOptions {
    /// Longest random wait before the claim (ms); `min(1 s, period / 10)`.
    pub jitter_ms: Option<i64>,
    /// How late a slot may still be started (ms); `min(max(period, 10 s), 10 min)`.
    pub max_late_ms: Option<i64>,
    /// The zone of a cron job.
    pub timezone: Option<String>,
    /// Whether a cron expression has seconds.
    pub seconds: Option<bool>,
    /// What is added to the slots of an `every` job (ms).
    pub offset_ms: Option<i64>,
    /// How long one try may take (ms); no limit.
    pub timeout_ms: Option<i64>,
    /// How long a timed-out handler may ignore its cancellation (ms); 60 s.
    pub abandon_after_ms: Option<i64>,
    /// Further tries; none.
    pub retries: Option<Retries>,
    /// Ended records kept; 100.
    pub history_size: Option<i64>,
    /// How long they are kept (ms); for ever.
    pub history_ttl_ms: Option<i64>,
    /// Whether the handler's return value is kept; true.
    pub keep_output: Option<bool>,
    /// The length of a lease (ms), at least 1 s; 30 s.
    pub lease_ms: Option<i64>,
    /// Default `skip` with leases, else `allow`.
    pub overlap: Option<Overlap>,
    /// Default `latest` with leases, else `none`; `none` if `max_late_ms` is given.
    pub catch_up: Option<CatchUp>,
    /// How old a slot may be to be made up for (ms); `max(24 h, period)`, at most 7 d.
    pub catch_up_window_ms: Option<i64>,
    /// How many slots `all` makes up for; 10.
    pub catch_up_limit: Option<i64>,
    /// Crashes that others take over; 2.
    pub max_takeovers: Option<i64>,
    /// How far this machine's clock may run ahead of the store's (ms); 2 s.
    pub max_early_ms: Option<i64>,
}

/// One option: its camelCase name, and how its value is read into the struct.
type Reader = fn(&mut JobOptions, &Field<'_>) -> Result<()>;

/// Every job option, in the order of the documentation: camelCase name and reader.
const JOB_OPTIONS: &[(&str, Reader)] = &[
    ("jitterMs", |o, f| f.duration(0, &mut o.jitter_ms)),
    ("maxLateMs", |o, f| f.duration(0, &mut o.max_late_ms)),
    ("timezone", |o, f| f.text(&mut o.timezone)),
    ("seconds", |o, f| f.flag(&mut o.seconds)),
    ("offsetMs", |o, f| f.duration(0, &mut o.offset_ms)),
    ("timeoutMs", |o, f| f.duration(1, &mut o.timeout_ms)),
    ("abandonAfterMs", |o, f| f.duration(0, &mut o.abandon_after_ms)),
    ("retries", |o, f| f.retries(&mut o.retries)),
    ("historySize", |o, f| f.count(1, 100_000, &mut o.history_size)),
    ("historyTtlMs", |o, f| f.duration(1, &mut o.history_ttl_ms)),
    ("keepOutput", |o, f| f.flag(&mut o.keep_output)),
    ("leaseMs", |o, f| f.duration(1_000, &mut o.lease_ms)),
    ("overlap", |o, f| {
        f.word(&[("skip", Overlap::Skip), ("allow", Overlap::Allow)], &mut o.overlap)
    }),
    ("catchUp", |o, f| {
        let words = [("none", CatchUp::None), ("latest", CatchUp::Latest), ("all", CatchUp::All)];
        f.word(&words, &mut o.catch_up)
    }),
    ("catchUpWindowMs", |o, f| f.duration(1, &mut o.catch_up_window_ms)),
    ("catchUpLimit", |o, f| f.count(1, 1_000, &mut o.catch_up_limit)),
    ("maxTakeovers", |o, f| f.count(0, 1_000, &mut o.max_takeovers)),
    ("maxEarlyMs", |o, f| f.duration(0, &mut o.max_early_ms)),
];

/// The longest duration that an option takes (ms): a hundred years.
const LONGEST_MS: i64 = 36_525 * 86_400_000;

impl JobOptions {
    /// The camelCase names of all job options, in the order of the documentation.
    pub fn names() -> impl Iterator<Item = &'static str> {
        JOB_OPTIONS.iter().map(|(name, _)| *name)
    }

    /// Reads options as a user wrote them. `null` counts as not given.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an unknown name (with the nearest known one) or a value out of range.
    pub fn from_json(given: &Map<String, Value>, naming: Naming) -> Result<JobOptions> {
        let mut options = JobOptions::default();
        for (name, value) in given {
            let known = JOB_OPTIONS.iter().find(|(camel, _)| naming.write(camel) == *name);
            let Some((camel, read)) = known else {
                let names: Vec<String> = JobOptions::names().map(|n| naming.write(n)).collect();
                return Err(Error::option(format!(
                    "there is no job option {name:?}{}; the options are {}",
                    nearest(name, &names),
                    names.join(", ")
                )));
            };
            if !value.is_null() {
                read(&mut options, &Field { name: naming.write(camel), value, naming })?;
            }
        }
        Ok(options)
    }

    /// These options, and where one is not given the default.
    pub fn or(&self, defaults: &JobOptions) -> JobOptions {
        let own = self.clone();
        let other = defaults.clone();
        JobOptions {
            jitter_ms: own.jitter_ms.or(other.jitter_ms),
            max_late_ms: own.max_late_ms.or(other.max_late_ms),
            timezone: own.timezone.or(other.timezone),
            seconds: own.seconds.or(other.seconds),
            offset_ms: own.offset_ms.or(other.offset_ms),
            timeout_ms: own.timeout_ms.or(other.timeout_ms),
            abandon_after_ms: own.abandon_after_ms.or(other.abandon_after_ms),
            retries: own.retries.or(other.retries),
            history_size: own.history_size.or(other.history_size),
            history_ttl_ms: own.history_ttl_ms.or(other.history_ttl_ms),
            keep_output: own.keep_output.or(other.keep_output),
            lease_ms: own.lease_ms.or(other.lease_ms),
            overlap: own.overlap.or(other.overlap),
            catch_up: own.catch_up.or(other.catch_up),
            catch_up_window_ms: own.catch_up_window_ms.or(other.catch_up_window_ms),
            catch_up_limit: own.catch_up_limit.or(other.catch_up_limit),
            max_takeovers: own.max_takeovers.or(other.max_takeovers),
            max_early_ms: own.max_early_ms.or(other.max_early_ms),
        }
    }
}

/// A named value under reading.
struct Field<'a> {
    name: String,
    value: &'a Value,
    naming: Naming,
}

impl Field<'_> {
    fn wrong(&self, allowed: &str) -> Error {
        Error::option(format!("{} is {}; allowed is {allowed}", self.name, self.value))
    }

    fn ms(&self, least: i64) -> Result<i64> {
        let allowed = format!(
            "a whole number of ms from {least} to {LONGEST_MS}, or a duration like \"90s\" or \"1h30m\""
        );
        let ms = match self.value {
            Value::Number(number) => whole(number).ok_or_else(|| self.wrong(&allowed))?,
            Value::String(text) => {
                duration::parse_ms(text).map_err(|error| self.wrong(error.message()))?
            }
            _ => return Err(self.wrong(&allowed)),
        };
        if (least..=LONGEST_MS).contains(&ms) { Ok(ms) } else { Err(self.wrong(&allowed)) }
    }

    fn duration(&self, least: i64, into: &mut Option<i64>) -> Result<()> {
        *into = Some(self.ms(least)?);
        Ok(())
    }

    fn count(&self, least: i64, most: i64, into: &mut Option<i64>) -> Result<()> {
        let number = match self.value {
            Value::Number(number) => whole(number).filter(|n| (least..=most).contains(n)),
            _ => None,
        };
        let allowed = format!("a whole number from {least} to {most}");
        *into = Some(number.ok_or_else(|| self.wrong(&allowed))?);
        Ok(())
    }

    fn flag(&self, into: &mut Option<bool>) -> Result<()> {
        *into = Some(self.value.as_bool().ok_or_else(|| self.wrong("true or false"))?);
        Ok(())
    }

    fn text(&self, into: &mut Option<String>) -> Result<()> {
        let text = self.value.as_str().ok_or_else(|| self.wrong("a text"))?;
        *into = Some(text.to_owned());
        Ok(())
    }

    fn word<T: Copy>(&self, words: &[(&str, T)], into: &mut Option<T>) -> Result<()> {
        let found = words.iter().find(|(word, _)| self.value.as_str() == Some(word));
        let allowed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        *into = Some(found.ok_or_else(|| self.wrong(&allowed.join(" or ")))?.1);
        Ok(())
    }

    fn retries(&self, into: &mut Option<Retries>) -> Result<()> {
        let naming = self.naming;
        let names = ["attempts", "backoffMs", "factor", "maxBackoffMs"].map(|n| naming.write(n));
        let Some(given) = self.value.as_object() else {
            return Err(self.wrong(&format!("an object of {}", names.join(", "))));
        };
        if let Some(unknown) = given.keys().find(|key| !names.contains(key)) {
            return Err(Error::option(format!(
                "{} has no {unknown:?}{}; it takes {}",
                self.name,
                nearest(unknown, &names),
                names.join(", ")
            )));
        }
        let part = |index: usize, default: Value| {
            let value = given.get(&names[index]).filter(|v| !v.is_null()).cloned();
            (format!("{}.{}", self.name, names[index]), value.unwrap_or(default))
        };
        let mut attempts = None;
        let (name, value) = part(0, Value::from(1));
        Field { name, value: &value, naming }.count(0, 1_000, &mut attempts)?;
        let (name, value) = part(1, Value::from(1_000));
        let backoff_ms = Field { name, value: &value, naming }.ms(0)?;
        let (name, value) = part(2, Value::from(2));
        let field = Field { name, value: &value, naming };
        let factor = value.as_f64().filter(|factor| (1.0..=100.0).contains(factor));
        let factor = factor.ok_or_else(|| field.wrong("a number from 1 to 100"))?;
        let (name, value) = part(3, Value::from(60_000));
        let max_backoff_ms = Field { name, value: &value, naming }.ms(0)?;
        let attempts = attempts.unwrap_or(1);
        *into = Some(Retries { attempts, backoff_ms, factor, max_backoff_ms });
        Ok(())
    }
}

/// A JSON number that is whole, also when written as `1e3` or `1000.0`.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        let exact = float.fract() == 0.0 && float.abs() <= EXACT;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        exact.then_some(float as i64)
    })
}

/// A job's options with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSettings {
    /// Longest random wait before the claim (ms), if given; else it follows the slot's period.
    jitter_ms: Option<i64>,
    /// How late a slot may still be started (ms), if given; else it follows the slot's period.
    max_late_ms: Option<i64>,
    /// The longest period of the next slots (ms); 0 for a single slot.
    longest_period: i64,
    /// How long one try may take (ms).
    pub timeout_ms: Option<i64>,
    /// How long a timed-out handler may ignore its cancellation (ms).
    pub abandon_after_ms: i64,
    /// Further tries.
    pub retries: Option<Retries>,
    /// Ended records kept.
    pub history_size: i64,
    /// How long they are kept (ms).
    pub history_ttl_ms: Option<i64>,
    /// Whether the handler's return value is kept.
    pub keep_output: bool,
    /// The length of a lease (ms).
    pub lease_ms: i64,
    /// Whether runs may overlap.
    pub overlap: Overlap,
    /// How many of the newest missed slots are made up for.
    pub catch_up_limit: i64,
    /// Which missed slots are made up for.
    pub catch_up: CatchUp,
    /// How old they may be (ms).
    pub catch_up_window_ms: i64,
    /// Crashes that others take over.
    pub max_takeovers: i64,
    /// How far this machine's clock may run ahead (ms).
    pub max_early_ms: i64,
}

const DAY_MS: i64 = 86_400_000;

impl JobSettings {
    /// Fills in the defaults for a job on a store with or without leases.
    ///
    /// # Errors
    /// `LEASES_REQUIRED` for an option that needs leases on a store without; `INVALID_OPTION` for a
    /// jitter that is not below the shortest period.
    pub fn resolve(
        options: &JobOptions,
        schedule: &Schedule,
        leases: bool,
        now: i64,
        naming: Naming,
    ) -> Result<JobSettings> {
        if !leases {
            refuse_leases(options, naming)?;
        }
        let (shortest, period) = periods(schedule, now);
        if let (Some(jitter), Some(shortest)) = (options.jitter_ms, shortest)
            && jitter >= shortest
        {
            return Err(Error::option(format!(
                "{} is {jitter}; it must be below the shortest time between two slots, here {shortest} ms",
                naming.write("jitterMs")
            )));
        }
        let catch_up = options.catch_up.unwrap_or(match (leases, options.max_late_ms) {
            (true, None) => CatchUp::Latest,
            _ => CatchUp::None,
        });
        Ok(JobSettings {
            jitter_ms: options.jitter_ms,
            max_late_ms: options.max_late_ms,
            longest_period: period,
            timeout_ms: options.timeout_ms,
            abandon_after_ms: options.abandon_after_ms.unwrap_or(60_000),
            retries: options.retries.clone().filter(|retries| retries.attempts > 0),
            history_size: options.history_size.unwrap_or(100),
            history_ttl_ms: options.history_ttl_ms,
            keep_output: options.keep_output.unwrap_or(true),
            lease_ms: options.lease_ms.unwrap_or(30_000),
            overlap: options.overlap.unwrap_or(if leases { Overlap::Skip } else { Overlap::Allow }),
            catch_up_limit: match catch_up {
                CatchUp::None => 0,
                CatchUp::Latest => 1,
                CatchUp::All => options.catch_up_limit.unwrap_or(10),
            },
            catch_up,
            catch_up_window_ms: options
                .catch_up_window_ms
                .unwrap_or(DAY_MS.max(period))
                .min(7 * DAY_MS),
            max_takeovers: options.max_takeovers.unwrap_or(2),
            max_early_ms: options.max_early_ms.unwrap_or(2_000),
        })
    }

    /// Longest random wait before the claim of a slot with this period (ms).
    pub fn jitter_ms(&self, period: Option<i64>) -> i64 {
        self.jitter_ms.unwrap_or_else(|| period.map_or(1_000, |period| (period / 10).min(1_000)))
    }

    /// How late a slot with this period may still be started (ms).
    pub fn max_late_ms(&self, period: Option<i64>) -> i64 {
        self.max_late_ms.unwrap_or_else(|| period.unwrap_or(0).clamp(10_000, 600_000))
    }

    /// How long after its time any slot may be started (ms), if it is the same for all.
    pub fn uniform_late_ms(&self, schedule: &Schedule) -> Option<i64> {
        match (self.jitter_ms, self.max_late_ms, schedule) {
            (Some(jitter), Some(late), _) => Some(jitter + late),
            (_, _, Schedule::Every(_)) => {
                let period = Some(self.longest_period);
                Some(self.jitter_ms(period) + self.max_late_ms(period))
            }
            _ => None,
        }
    }

    /// The last instant at which a slot may be started (ms, the store's clock).
    pub fn not_after_ms(&self, schedule: &Schedule, slot: i64) -> i64 {
        let period = schedule.period(slot);
        slot + self.jitter_ms(period) + self.max_late_ms(period)
    }

    /// What the store is told about the job.
    pub fn limits(&self, name: &str, schedule: &Schedule, leases: bool) -> JobLimits {
        let period = (self.longest_period > 0).then_some(self.longest_period);
        let (jitter_ms, max_late_ms) = (self.jitter_ms(period), self.max_late_ms(period));
        let late = jitter_ms + max_late_ms;
        JobLimits {
            name: name.to_owned(),
            jitter_ms,
            max_late_ms,
            history_size: self.history_size,
            history_ttl_ms: self.history_ttl_ms,
            lease_ms: leases.then_some(self.lease_ms),
            overlap: leases.then_some(self.overlap),
            catch_up: leases.then_some(self.catch_up),
            schedule: Some(schedule.fingerprint()),
            keep_ms: Some(if leases { late.max(self.lease_ms) } else { late }),
            keep_slots: Some(self.catch_up_limit),
            keep_window_ms: Some(self.catch_up_window_ms),
            zone_tables: Some(zone_tables().to_owned()),
        }
    }

    /// Refuses a job whose claims the store would forget too soon.
    ///
    /// # Errors
    /// `DEDUPE_WINDOW_TOO_SHORT` with the numbers.
    pub fn check_window(backend: &dyn Backend, limits: &JobLimits, naming: Naming) -> Result<()> {
        let late = limits.jitter_ms + limits.max_late_ms;
        if let Some(window) = backend.dedupe_window_ms()
            && late >= window
        {
            return Err(Error::new(
                Code::DedupeWindowTooShort,
                format!(
                    "job {:?}: {} + {} is {} + {} = {late} ms, and the store {:?} remembers a claim \
                     for only {window} ms: a late instance could run a slot again; make their sum \
                     shorter than {window}, or use a store that remembers longer",
                    limits.name,
                    naming.write("jitterMs"),
                    naming.write("maxLateMs"),
                    limits.jitter_ms,
                    limits.max_late_ms,
                    backend.name(),
                ),
            ));
        }
        Ok(())
    }
}

/// The shortest and the longest distance between two of the next hundred slots (ms); none and 0 for
/// a single slot.
fn periods(schedule: &Schedule, now: i64) -> (Option<i64>, i64) {
    if let Schedule::Every(_) = schedule {
        let period = schedule.shortest_period(now, 1);
        return (period, period.unwrap_or(0));
    }
    let (mut shortest, mut longest) = (None::<i64>, 0);
    let mut slot = schedule.next(now);
    for _ in 0..100 {
        let following = slot.and_then(|slot| schedule.next(slot));
        let (Some(this), Some(next)) = (slot, following) else { break };
        let distance = next - this;
        shortest = Some(shortest.map_or(distance, |known| known.min(distance)));
        longest = longest.max(distance);
        slot = following;
    }
    (shortest, longest)
}

fn refuse_leases(options: &JobOptions, naming: Naming) -> Result<()> {
    let given = [
        ("leaseMs", options.lease_ms.is_some()),
        ("overlap", options.overlap == Some(Overlap::Skip)),
        ("catchUp", options.catch_up.is_some_and(|catch_up| catch_up != CatchUp::None)),
        ("catchUpWindowMs", options.catch_up_window_ms.is_some()),
        ("catchUpLimit", options.catch_up_limit.is_some()),
        ("maxTakeovers", options.max_takeovers.is_some_and(|count| count > 0)),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => Err(Error::new(
            Code::LeasesRequired,
            format!(
                "{} needs a store with leases, and this one has none; leave the option out, or use \
                 a store with leases (sqlite:, postgres:, mysql:, redis:, nats:, or an object with \
                 `runs`)",
                naming.write(name)
            ),
        )),
    }
}
