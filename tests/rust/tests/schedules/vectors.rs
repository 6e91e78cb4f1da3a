//! The entries of `tests/vectors/schedules.json`.

use std::process::Command;

use anarchon::schedule::{Schedule, duration, zone};
use anarchon::{Error, Result};
use serde_json::Value;

use super::{ms, text};

const VECTORS: &str = include_str!("../../../vectors/schedules.json");

fn entries() -> Vec<Value> {
    serde_json::from_str(VECTORS).expect("the vectors are a JSON list")
}

fn string<'a>(entry: &'a Value, member: &str) -> &'a str {
    entry[member].as_str().unwrap_or_else(|| panic!("{}: {member} is missing", entry["id"]))
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list of texts");
    list.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// Instants in the spelling of [`text`].
fn instants(list: &Value) -> Vec<String> {
    strings(list).iter().map(|instant| text(ms(instant))).collect()
}

fn schedule(entry: &Value) -> Result<Schedule> {
    match string(entry, "kind") {
        "cron" => Schedule::cron(
            string(entry, "expression"),
            string(entry, "zone"),
            entry["seconds"] == true,
        ),
        "every" => Schedule::every(
            duration::parse_ms(string(entry, "interval"))?,
            entry["offset_ms"].as_i64().expect("offset_ms"),
        ),
        "at" => Ok(Schedule::at(ms(string(entry, "when")))),
        other => panic!("{}: unknown kind {other}", entry["id"]),
    }
}

/// What is wrong with an error, if anything.
fn check_refusal(entry: &Value, error: &Error) -> Vec<String> {
    let mut wrong = Vec::new();
    let code = error.code().map_or("", |code| code.as_str());
    if code != string(entry, "code") {
        wrong.push(format!("{}: the code is {code}", entry["id"]));
    }
    for part in strings(&entry["message_contains"]) {
        if !error.message().contains(&part) {
            wrong.push(format!("{}: {part:?} is not in: {}", entry["id"], error.message()));
        }
    }
    wrong
}

fn check_schedule(entry: &Value, schedule: &Schedule) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut equal = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        if found != expected {
            wrong.push(format!("{}: {what} is {found}, not {expected}", entry["id"]));
        }
    };
    if let Some(after) = entry["after"].as_str() {
        let expected = instants(&entry["expect"]);
        let mut at = ms(after);
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let Some(slot) = schedule.next(at) else { break };
            found.push(text(slot));
            at = slot;
        }
        equal("next", &found, &expected);
        if entry["ends"] == true {
            equal("the slot behind the last", &schedule.next(at), &None::<i64>);
        }
    }
    if let Some(before) = entry["before"].as_str() {
        let expected = instants(&entry["expect_prev"]);
        let mut at = ms(before);
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let Some(slot) = schedule.prev(at) else { break };
            found.push(text(slot));
            at = slot;
        }
        equal("prev", &found, &expected);
    }
    if let Some(expected) = entry["expect_count"].as_u64() {
        let count = schedule.count(ms(string(entry, "from")), ms(string(entry, "to")));
        equal("count", &count, &expected);
    }
    if let Some(limit) = entry["limit"].as_u64() {
        let limit = usize::try_from(limit).expect("limit");
        let newest = schedule.newest(limit, ms(string(entry, "from")), ms(string(entry, "to")));
        let found: Vec<_> = newest.into_iter().map(text).collect();
        equal("newest", &found, &instants(&entry["expect_newest"]));
    }
    if let Some(expected) = entry["fingerprint"].as_str() {
        equal("fingerprint", &schedule.fingerprint(), &expected);
    }
    if entry["warns"].is_array() {
        let parts = strings(&entry["warns"]);
        equal("number of warnings", &schedule.warnings().len(), &usize::from(!parts.is_empty()));
        for part in parts {
            let found = schedule.warnings().iter().any(|warning| warning.contains(&part));
            equal(&format!("{part:?} in the warning"), &found, &true);
        }
    }
    wrong
}

fn check(entry: &Value) -> Vec<String> {
    let outcome = match string(entry, "kind") {
        "duration" => duration::parse_ms(string(entry, "text")).map(|found| {
            let expected = match &entry["expect_ms"] {
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            match found.to_string() == expected {
                true => Vec::new(),
                false => vec![format!("{}: it is {found} ms, not {expected}", entry["id"])],
            }
        }),
        "zone" => {
            zone::check(string(entry, "name")).map(|found| match entry["expect_name"] == found {
                true => Vec::new(),
                false => vec![format!("{}: the name is {found}", entry["id"])],
            })
        }
        _ => schedule(entry).map(|schedule| check_schedule(entry, &schedule)),
    };
    match (outcome, entry["refuse"] == true) {
        (Err(error), true) => check_refusal(entry, &error),
        (Err(error), false) => vec![format!("{}: refused: {error}", entry["id"])],
        (Ok(_), true) => vec![format!("{}: accepted", entry["id"])],
        (Ok(wrong), false) => wrong,
    }
}

#[test]
fn every_vector_holds() {
    let entries = entries();
    assert!(entries.len() > 200, "only {} entries", entries.len());
    let wrong: Vec<String> = entries.iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{} of the vectors fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_entry_states_something() {
    const STATEMENTS: [&str; 8] = [
        "expect",
        "expect_prev",
        "expect_count",
        "expect_newest",
        "fingerprint",
        "expect_ms",
        "expect_name",
        "refuse",
    ];
    let mut ids = std::collections::BTreeSet::new();
    for entry in entries() {
        let id = string(&entry, "id").to_owned();
        assert!(STATEMENTS.iter().any(|member| !entry[*member].is_null()), "{id} states nothing");
        assert!(ids.insert(id.clone()), "{id} comes twice");
    }
}

#[test]
fn the_zone_of_the_host_and_its_tables_do_not_matter() {
    // The same vectors in a process of its own, whose host would say something else.
    let myself = std::env::current_exe().expect("the test's own path");
    for host in ["Australia/Sydney", "Europe/London", "Pacific/Apia", "No/Such_Zone"] {
        let output = Command::new(&myself)
            .args(["--exact", "vectors::every_vector_holds"])
            .env("TZ", host)
            .env("TZDIR", "/nonexistent")
            .output()
            .expect("the test can start itself");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "with TZ={host}: {said}");
    }
}
