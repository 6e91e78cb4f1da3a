//! The examples of `tests/vectors/rules.json`, one or more for each rule.

use serde_json::{Map, Value, json};

use crate::backend::contract::{ClaimInput, JobLimits, PauseRequest, RunClaim, StoredResult};
use crate::backend::history::stored_record;
use crate::lease::model::{JobState, MissedRange, RunKey, Status};
use crate::lease::rules::{self, Answer, Call, Change};
#[cfg(debug_assertions)]
use crate::mends::{self, Mend};

const VECTORS: &str = include_str!("../../../tests/vectors/rules.json");

/// The fields that hold an instant, counted from `base` in the file.
const INSTANTS: [&str; 11] = [
    "at",
    "slot",
    "notAfterMs",
    "askedAt",
    "nowMs",
    "since",
    "floor",
    "from",
    "to",
    "startedAt",
    "endedAt",
];

#[derive(Default)]
struct Job {
    state: JobState,
    results: std::collections::HashMap<RunKey, StoredResult>,
}

impl Job {
    fn call(&mut self, name: &str, with: &Value, now: i64) -> Value {
        let text = |field: &str| with[field].as_str().unwrap_or_default().to_owned();
        let slot = with["slot"].as_i64().unwrap_or_default();
        let call = match name {
            "active" => return json!(rules::active(&self.state, now)),
            "history" => return self.history(with, now),
            "register" => Call::Register(read::<JobLimits>(with)),
            "claim" => Call::Claim(read::<RunClaim>(with)),
            "claimOnly" => Call::ClaimOnly(read::<ClaimInput>(with)),
            "claimManual" => Call::ClaimManual(read::<ClaimInput>(with)),
            "heartbeat" => {
                let lease_ms = with["leaseMs"].as_i64().expect("leaseMs");
                Call::Heartbeat { slot, token: text("token"), lease_ms }
            }
            "finish" => {
                let status = Status::parse(&text("status")).expect("a status");
                let result = result_of(slot, status, with);
                Call::Finish { slot, token: text("token"), status, result: Some(result) }
            }
            "release" => Call::Release { slot, token: text("token") },
            "cancel" => Call::Cancel { slot, manual: with["manual"] == json!(true) },
            "saveResult" => Call::SaveResult {
                result: read::<StoredResult>(with),
                history_size: with["historySize"].as_i64().expect("historySize"),
                history_ttl_ms: None,
            },
            "survey" => Call::Survey,
            "recordMissed" => Call::RecordMissed(read::<MissedRange>(with)),
            "pause" => Call::SetPaused(Some(read::<PauseRequest>(with))),
            "resume" => Call::SetPaused(None),
            "forget" => Call::Forget,
            other => panic!("{other:?} is no call"),
        };
        let decision = rules::decide(&self.state, &call, now);
        rules::apply(&mut self.state, &decision.changes);
        for change in decision.changes {
            if let Change::Put { run, result: Some(result) } = change {
                self.results.insert(run.key(), *result);
            }
        }
        match decision.answer {
            Answer::Bool(truth) => json!(truth),
            Answer::Outcome(outcome) => json!(outcome),
            Answer::Survey(survey) => json!(survey),
        }
    }

    fn history(&self, with: &Value, now: i64) -> Value {
        let limit = with["limit"].as_u64().map_or(20, |limit| usize::try_from(limit).expect("few"));
        let runs = self.state.runs.values().rev().take(limit);
        let records = runs.map(|run| stored_record("job", run, self.results.get(&run.key()), now));
        json!(records.collect::<Vec<_>>())
    }
}

fn read<T: serde::de::DeserializeOwned>(with: &Value) -> T {
    serde_json::from_value(with.clone()).unwrap_or_else(|error| panic!("{with}: {error}"))
}

fn result_of(slot: i64, status: Status, with: &Value) -> StoredResult {
    let output = with["output"].as_str().map(str::to_owned);
    StoredResult {
        slot,
        manual: false,
        by: "?".to_owned(),
        status,
        started_at: slot,
        ended_at: slot,
        attempt: None,
        error: None,
        output,
        output_truncated: None,
        abandoned: None,
    }
}

/// The arguments of a step over the defaults of its call, with absolute instants.
fn arguments(defaults: &Value, step: &Value, base: i64) -> Value {
    let mut all = json!({ "job": "job", "name": "job", "token": "", "instanceId": "" });
    let fields = all.as_object_mut().expect("an object");
    let own = [defaults.get(step["call"].as_str().expect("a call")), step.get("with")];
    for object in own.into_iter().flatten().filter_map(Value::as_object) {
        fields.extend(object.clone());
    }
    shifted(&all, base)
}

fn shifted(value: &Value, base: i64) -> Value {
    match value {
        Value::Object(fields) => {
            let shift = |(name, value): (&String, &Value)| {
                let value = match value {
                    Value::Number(at) if INSTANTS.contains(&name.as_str()) => later(at, base),
                    Value::Array(slots) if name == "slots" => slots
                        .iter()
                        .filter_map(Value::as_number)
                        .map(|at| later(at, base))
                        .collect(),
                    other => shifted(other, base),
                };
                (name.clone(), value)
            };
            Value::Object(fields.iter().map(shift).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| shifted(item, base)).collect(),
        other => other.clone(),
    }
}

fn later(at: &serde_json::Number, base: i64) -> Value {
    json!(at.as_i64().expect("whole milliseconds") + base)
}

/// What of `expected` is not in `actual`, in words.
fn difference(expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Null, Value::Null) => None,
        (Value::Null, Value::Number(number)) if number.as_i64() == Some(0) => None,
        (Value::Object(wanted), Value::Object(_)) => wanted.iter().find_map(|(name, value)| {
            let actual = actual.get(name).unwrap_or(&Value::Null);
            difference(value, actual).map(|what| format!("{name}: {what}"))
        }),
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => {
            wanted.iter().zip(got).enumerate().find_map(|(index, (wanted, got))| {
                difference(wanted, got).map(|what| format!("[{index}].{what}"))
            })
        }
        _ if expected == actual => None,
        _ => Some(format!("expected {expected}, got {actual}")),
    }
}

fn failures(case: &Value, file: &Value) -> Option<String> {
    let base = file["base"].as_i64().expect("a base");
    let mut job = Job::default();
    for (index, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        let now = base + step["at"].as_i64().expect("at");
        let with = arguments(&file["defaults"], step, base);
        let call = step["call"].as_str().expect("a call");
        let answer = job.call(call, &with, now);
        if let Some(what) = difference(&shifted(&step["expect"], base), &answer) {
            let (rule, says) = (&case["rule"], &case["says"]);
            return Some(format!("rule {rule}: {says}\n  step {}, {call}: {what}", index + 1));
        }
    }
    None
}

#[test]
fn every_rule_decides_as_its_examples_say() {
    let file: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    let cases = file["cases"].as_array().expect("cases");
    let failed: Vec<String> = cases.iter().filter_map(|case| failures(case, &file)).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[cfg(debug_assertions)]
#[test]
fn without_a_mend_of_the_rules_an_example_fails() {
    let file: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    let cases = file["cases"].as_array().expect("cases");
    for mend in [Mend::F01, Mend::F02, Mend::F08, Mend::F19, Mend::G03, Mend::T01] {
        let _out = mends::take_out(mend);
        let failed = cases.iter().find_map(|case| failures(case, &file));
        assert!(failed.is_some(), "{mend:?} can be taken out and no example notices");
    }
}

#[test]
fn every_numbered_rule_has_an_example() {
    let file: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    let cases = file["cases"].as_array().expect("cases");
    let has = |rule: &str| {
        let names = cases.iter().filter_map(|case| case["rule"].as_str());
        names.into_iter().any(|name| name.split(' ').next() == Some(rule))
    };
    for rule in ["settle", "1", "2", "3", "4", "5", "6", "7", "8", "8a", "9", "10", "11"] {
        assert!(has(rule), "rule {rule} has no example in tests/vectors/rules.json");
    }
}

#[test]
fn a_wrong_expectation_is_noticed() {
    let expected = json!({ "kind": "won", "runs": [{ "slot": 1 }] });
    let actual = json!({ "kind": "won", "runs": [{ "slot": 2 }], "nowMs": 3 });
    let what = difference(&expected, &actual).expect("they differ");
    assert_eq!(what, "runs: [0].slot: expected 1, got 2");
}
