//! Whether a server keeps what the store promises, before anything is written to it.

use std::collections::HashMap;

use super::failure;
use super::keys;
use super::link::Link;
use super::options::RedisOptions;
use crate::clock::{Clock, SystemClock};
use crate::error::{Code, Error, Result};

/// The form of what is stored. A greater major cannot be read, a greater minor can.
const MAJOR: u32 = 1;
const MINOR: u32 = 0;

/// The oldest server whose scripts replicate their effects and know all commands that are used.
const OLDEST: (u32, u32) = (5, 0);

/// From this offset between the clocks a warning is logged (ms).
const SKEW_MS: i64 = 2_000;

/// What `INFO` tells.
struct Info(HashMap<String, String>);

impl Info {
    fn parse(text: &str) -> Info {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Info(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// What is wrong with a server.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    refusal: Option<String>,
    warnings: Vec<String>,
}

fn judge(options: &RedisOptions, info: &Info) -> Findings {
    let mut findings = Findings::default();
    let version = info.get("redis_version");
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let parsed = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if !version.is_empty() && parsed < OLDEST {
        let (major, minor) = OLDEST;
        findings.refusal = Some(format!(
            "it is version {version}; at least {major}.{minor} is needed, 7.0 is recommended"
        ));
    }
    let policy = info.get("maxmemory_policy");
    let limited = !matches!(info.get("maxmemory"), "" | "0");
    if limited && policy != "noeviction" && !policy.is_empty() {
        let why = format!(
            "maxmemory is set and maxmemory-policy is {policy}: the server would drop the records \
             of slots that have run, and those would run again. Set maxmemory-policy noeviction, \
             or use another server"
        );
        match options.allow_eviction {
            true => findings.warnings.push(why),
            false => {
                findings.refusal = Some(format!("{why} (allowEviction=true starts all the same)"));
            }
        }
    }
    if info.get("redis_mode") == "cluster" && !options.cluster {
        findings.refusal =
            Some("it is a node of a cluster; add cluster=true to the URL".to_owned());
    }
    if !matches!(info.get("redis_mode"), "cluster" | "") && options.cluster {
        findings.refusal = Some("it is no cluster; leave out cluster=true".to_owned());
    }
    findings
}

/// Checks the server, and that what is stored is of a form that this version knows. A reader
/// creates nothing.
///
/// # Errors
/// `BACKEND_REFUSED`, `SCHEMA_TOO_NEW`, `BACKEND_UNAVAILABLE`.
pub(super) async fn server(options: &RedisOptions, link: &Link, is_reader: bool) -> Result<()> {
    let place = options.address();
    let refused = |why: &str| Error::new(Code::BackendRefused, format!("Redis at {place}: {why}"));
    match link.tell::<String>(&redis::cmd("INFO")).await {
        Ok(text) => {
            let info = Info::parse(&text);
            if info.get("role") == "slave" {
                return Err(Error::unavailable(format!(
                    "Redis at {place} is a replica, which takes no writes; name the primary"
                )));
            }
            let mut findings = judge(options, &info);
            if let Some(why) = findings.refusal {
                return Err(refused(&why));
            }
            findings.warnings.extend(durability(link, &info).await);
            for warning in findings.warnings {
                tracing::warn!(target: "anarchon", store = %place, "Redis: {warning}");
            }
        }
        Err(error) if failure::is_spent(&error) => return Err(failure::told(options, &error)),
        Err(error) => match failure::told(options, &error) {
            told if error.code() != Some("NOPERM") => return Err(told),
            _ => tracing::warn!(
                target: "anarchon",
                store = %place,
                "Redis: the user may not ask INFO, so the eviction policy is not checked; it must \
                 be noeviction"
            ),
        },
    }
    skew(options, link).await?;
    schema(options, link, is_reader).await
}

/// Says so if a restart of the server would forget everything.
async fn durability(link: &Link, info: &Info) -> Option<String> {
    if info.get("aof_enabled") != "0" {
        return None;
    }
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("save");
    // Where the settings may not be asked for, nobody can be warned.
    let save: HashMap<String, String> = link.tell(&command).await.ok()?;
    save.get("save").is_some_and(String::is_empty).then(|| {
        "neither AOF nor RDB snapshots are on: a restart forgets every claim, and slots that are \
         still in time would run again. Set appendonly yes"
            .to_owned()
    })
}

async fn skew(options: &RedisOptions, link: &Link) -> Result<()> {
    let before = SystemClock.wall_ms();
    let time: (i64, i64) =
        link.tell(&redis::cmd("TIME")).await.map_err(|error| failure::told(options, &error))?;
    let after = SystemClock.wall_ms();
    let theirs = time.0 * 1_000 + time.1 / 1_000;
    let ahead = if theirs > after { theirs - after } else { (theirs - before).min(0) };
    if ahead.abs() >= SKEW_MS {
        tracing::warn!(
            target: "anarchon",
            store = %options.address(),
            "Redis: its clock is {ahead} ms ahead of ours; slots are judged by its clock"
        );
    }
    Ok(())
}

async fn schema(options: &RedisOptions, link: &Link, is_reader: bool) -> Result<()> {
    let told = |error: redis::RedisError| failure::told(options, &error);
    let key = keys::of_schema(&options.prefix);
    let mut get = redis::cmd("GET");
    get.arg(&key);
    let found: Option<String> = link.ask(&get).await.map_err(told)?;
    match found {
        Some(version) => {
            let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
            match major {
                Some(major) if major <= MAJOR => Ok(()),
                Some(_) => Err(Error::new(
                    Code::SchemaTooNew,
                    format!(
                        "what is stored in Redis at {} under the prefix {:?} is of version \
                         {version}; this version of anarchon knows {MAJOR}.{MINOR}. Update it",
                        options.address(),
                        options.prefix
                    ),
                )),
                None => Err(Error::new(
                    Code::BackendRefused,
                    format!("the key {key:?} in Redis is not ours; choose another prefix"),
                )),
            }
        }
        None if is_reader => Err(Error::new(
            Code::BackendRefused,
            format!(
                "there is nothing to read in Redis at {} under the prefix {:?}: no scheduler has \
                 been started on it yet",
                options.address(),
                options.prefix
            ),
        )),
        None => {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(format!("{MAJOR}.{MINOR}")).arg("NX");
            link.ask::<redis::Value>(&set).await.map(drop).map_err(told)
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
