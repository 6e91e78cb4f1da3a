//! Whether a server and a stream keep what the store promises, before anything is written.

use serde_json::Value;

use super::api::{Api, StreamInfo};
use super::link::Link;
use super::options::NatsOptions;
use super::source::Source;
use super::subjects;
use crate::clock::{Clock, SystemClock};
use crate::error::{Code, Error, Result};

/// The form of what is stored. A greater major cannot be read, a greater minor can.
const MAJOR: u32 = 1;
const MINOR: u32 = 0;

/// The oldest server whose streams can do what is asked of them.
const OLDEST: (u32, u32) = (2, 9);

/// From this offset between the clocks a warning is logged (ms).
const SKEW_MS: i64 = 2_000;

/// What is wrong with a server or a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    refusal: Option<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn refuse(&mut self, why: impl Into<String>) {
        let why = why.into();
        self.refusal.get_or_insert(why);
    }
}

/// What a server says of its version.
fn judge_version(version: &str) -> Option<String> {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let parsed = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = OLDEST;
    (parsed < OLDEST).then(|| {
        format!("it is version {version}; at least {major}.{minor} is needed, 2.11 is recommended")
    })
}

/// Limits under which a stream drops messages by itself: their slots would be open again.
const LIMITS: [(&str, i64); 3] = [("max_msgs", -1), ("max_bytes", -1), ("max_age", 0)];

fn judge_stream(options: &NatsOptions, config: &Value, in_cluster: bool) -> Findings {
    let mut findings = Findings::default();
    let name = &options.prefix;
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let mut kept: Vec<&str> =
        config["subjects"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let ours = subjects::of_stream(name);
    let mut ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    kept.sort_unstable();
    ours.sort_unstable();
    if kept != ours {
        findings.refuse(format!(
            "its stream {name:?} is not ours: it keeps {kept:?}. Choose another prefix"
        ));
        return findings;
    }
    for (limit, without) in LIMITS {
        let value = config[limit].as_i64().unwrap_or(without);
        if value != without && value > 0 {
            findings.refuse(format!(
                "its stream {name:?} has {limit} {value}: it would drop the records of slots that \
                 have run, and those would run again. Set {limit} to {without}"
            ));
        }
    }
    if config["max_msgs_per_subject"].as_i64() != Some(1) {
        findings.refuse(format!(
            "its stream {name:?} keeps {} messages per subject; set max_msgs_per_subject to 1",
            config["max_msgs_per_subject"]
        ));
    }
    if text("retention") != "limits" || text("discard") != "old" {
        findings.refuse(format!(
            "its stream {name:?} has retention {:?} and discard {:?}; needed are \"limits\" and \
             \"old\"",
            text("retention"),
            text("discard")
        ));
    }
    for flag in ["no_ack", "sealed", "deny_delete", "deny_purge"] {
        if config[flag].as_bool() == Some(true) {
            findings.refuse(format!("its stream {name:?} has {flag}; set it to false"));
        }
    }
    for field in ["mirror", "sources", "subject_transform"] {
        if !config[field].is_null() {
            findings.refuse(format!("its stream {name:?} has {field}; use a stream without"));
        }
    }
    if config["persist_mode"].as_str().is_some_and(|mode| mode == "async") {
        findings.refuse(format!(
            "its stream {name:?} has persist_mode async: a crash would lose claims that were won. \
             Make it anew with the default"
        ));
    }
    judge_storage(options, config, &mut findings);
    judge_replicas(options, config, in_cluster, &mut findings);
    findings
}

fn judge_storage(options: &NatsOptions, config: &Value, findings: &mut Findings) {
    if config["storage"].as_str() != Some("memory") {
        return;
    }
    let why = format!(
        "its stream {:?} is in memory: a restart forgets every claim, and slots that are still in \
         time would run again",
        options.prefix
    );
    match options.allow_memory {
        true => findings.warnings.push(why),
        false => findings.refuse(format!(
            "{why}. Make it anew with storage file (allowMemory=true starts all the same)"
        )),
    }
}

fn judge_replicas(
    options: &NatsOptions,
    config: &Value,
    in_cluster: bool,
    findings: &mut Findings,
) {
    let replicas = config["num_replicas"].as_u64().unwrap_or(1);
    let name = &options.prefix;
    if let Some(wanted) = options.replicas
        && replicas < u64::from(wanted)
    {
        findings.refuse(format!(
            "its stream {name:?} has {replicas} replicas, fewer than the {wanted} of replicas=; \
             edit the stream, or ask for fewer"
        ));
    }
    if replicas == 1 && in_cluster {
        findings.warnings.push(format!(
            "the stream {name:?} is kept by one server of the cluster alone: while that one is \
             away nothing runs, and with its disk all claims are lost. Use replicas=3"
        ));
    }
}

/// Checks server and stream, makes the stream if need be, and finds out where the time comes from.
/// A reader makes nothing.
///
/// # Errors
/// `BACKEND_REFUSED`, `SCHEMA_TOO_NEW`, `BACKEND_UNAVAILABLE`.
pub(super) async fn server(options: &NatsOptions, link: &Link, is_reader: bool) -> Result<Source> {
    let api = Api { link, options };
    let server = link.server();
    let in_cluster = server.cluster.as_ref().is_some_and(|name| !name.is_empty());
    if let Some(why) = judge_version(&server.version) {
        return Err(refused(options, &why));
    }
    if !server.jetstream && !in_cluster && options.domain.is_none() && server.domain.is_none() {
        return Err(refused(options, "JetStream is not enabled; start the server with -js"));
    }
    let info = match api.stream().await? {
        Some(info) => info,
        None if is_reader => return Err(nothing_to_read(options)),
        None => {
            api.make_stream().await?;
            let made = api.stream().await?;
            made.ok_or_else(|| Error::unavailable("NATS made a stream that is not there"))?
        }
    };
    let findings = judge_stream(options, &info.config, in_cluster);
    if let Some(why) = findings.refusal {
        return Err(refused(options, &why));
    }
    for warning in findings.warnings {
        tracing::warn!(target: "anarchon", store = %options.address(), "NATS: {warning}");
    }
    let source = source(options, &info);
    skew(&api, &source).await?;
    form(&api, is_reader).await?;
    Ok(source)
}

fn source(options: &NatsOptions, info: &StreamInfo) -> Source {
    match (&options.clock, info.ts) {
        (Some(clock), _) => Source::Given(clock.clone()),
        (None, Some(_)) => Source::told(),
        (None, None) => Source::measured(),
    }
}

fn refused(options: &NatsOptions, why: &str) -> Error {
    Error::new(Code::BackendRefused, format!("NATS at {}: {why}", options.address()))
}

fn nothing_to_read(options: &NatsOptions) -> Error {
    refused(
        options,
        &format!(
            "there is nothing to read under the prefix {:?}: no scheduler has been started on it \
             yet",
            options.prefix
        ),
    )
}

/// A clock that is given has nothing to do with ours.
async fn skew(api: &Api<'_>, source: &Source) -> Result<()> {
    if matches!(source, Source::Given(_)) {
        return Ok(());
    }
    let before = SystemClock.wall_ms();
    let reading = source.read(api).await?;
    let after = SystemClock.wall_ms();
    let shown = reading.shown;
    let ahead = if shown > after { shown - after } else { (shown - before).min(0) };
    if ahead.abs() >= SKEW_MS {
        tracing::warn!(
            target: "anarchon",
            store = %api.options.address(),
            "NATS: its clock is {ahead} ms ahead of ours; slots are judged by its clock"
        );
    }
    Ok(())
}

/// Whether what is stored is of a form that this version knows.
async fn form(api: &Api<'_>, is_reader: bool) -> Result<()> {
    let options = api.options;
    let subject = subjects::of_schema(&options.prefix);
    let Some(kept) = api.last(&subject).await? else {
        if is_reader {
            return Err(nothing_to_read(options));
        }
        let text = format!("{MAJOR}.{MINOR}").into_bytes();
        // One that somebody else wrote just now is judged at the next start.
        return api.publish(subject, text, Some(0)).await.map(drop);
    };
    let version = String::from_utf8_lossy(&kept.data).into_owned();
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major <= MAJOR => Ok(()),
        Some(_) => Err(Error::new(
            Code::SchemaTooNew,
            format!(
                "what is stored in NATS at {} under the prefix {:?} is of version {version}; this \
                 version of anarchon knows {MAJOR}.{MINOR}. Update it",
                options.address(),
                options.prefix
            ),
        )),
        None => Err(refused(
            options,
            &format!("the message on {subject:?} is not ours; choose another prefix"),
        )),
    }
}

/// Refuses a job whose state could pass half of what a message may have.
///
/// # Errors
/// `INVALID_OPTION`, with the numbers.
pub(super) fn size(max_payload: usize, job: &str, records: i64) -> Result<()> {
    let records = usize::try_from(records).unwrap_or(0);
    let (bytes, half) = (super::stored::estimate(records), max_payload / 2);
    if bytes <= half {
        return Ok(());
    }
    Err(Error::option(format!(
        "the job {job:?} keeps up to {records} records, which can take {bytes} bytes; on NATS they \
         are one message, and {half} bytes are allowed (half of the server's max_payload, \
         {max_payload}). Set historySize and catchUpLimit to {} at most, or raise max_payload",
        super::stored::fitting(half)
    )))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
