use serde_json::{Value, json};

use super::{Findings, judge_stream, judge_version, size};
use crate::backends::nats::NatsOptions;
use crate::backends::nats::subjects::of_stream;
use crate::error::Code;

fn sound() -> Value {
    json!({
        "name": "anarchon",
        "subjects": of_stream("anarchon"),
        "retention": "limits",
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "max_msgs_per_subject": 1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "sealed": false,
    })
}

fn findings(field: &str, value: Value) -> Findings {
    let mut config = sound();
    config[field] = value;
    judge_stream(&NatsOptions::new("h"), &config, false)
}

#[test]
fn a_stream_as_it_is_made_is_taken_without_a_word() {
    let options = NatsOptions::new("h");
    assert_eq!(judge_stream(&options, &sound(), false), Findings::default());
}

#[test]
fn a_stream_that_would_open_slots_again_is_refused_and_told_why() {
    for (field, value, says) in [
        ("max_msgs", json!(1_000), "has max_msgs 1000: it would drop the records"),
        ("max_bytes", json!(1 << 30), "Set max_bytes to -1"),
        ("max_age", json!(3_600_000_000_000_i64), "Set max_age to 0"),
        ("max_msgs_per_subject", json!(5), "keeps 5 messages per subject"),
        ("discard", json!("new"), "discard \"new\""),
        ("retention", json!("workqueue"), "retention \"workqueue\""),
        ("storage", json!("memory"), "a restart forgets every claim"),
        ("no_ack", json!(true), "has no_ack; set it to false"),
        ("sealed", json!(true), "has sealed"),
        ("deny_delete", json!(true), "has deny_delete"),
        ("mirror", json!({ "name": "other" }), "has mirror"),
        ("persist_mode", json!("async"), "would lose claims that were won"),
        ("subjects", json!(["anarchon.>"]), "is not ours: it keeps [\"anarchon.>\"]"),
    ] {
        let refusal = findings(field, value).refusal.unwrap_or_default();
        assert!(refusal.contains(says), "{field}: {refusal}");
    }
}

#[test]
fn a_stream_in_memory_is_taken_by_whoever_asks_for_it() {
    let options = NatsOptions { allow_memory: true, ..NatsOptions::new("h") };
    let mut config = sound();
    config["storage"] = json!("memory");
    let findings = judge_stream(&options, &config, false);
    assert_eq!((findings.refusal, findings.warnings.len()), (None, 1));
}

#[test]
fn too_few_replicas_are_refused_and_a_single_one_in_a_cluster_is_warned_of() {
    let three = NatsOptions { replicas: Some(3), ..NatsOptions::new("h") };
    let refusal = judge_stream(&three, &sound(), true).refusal.unwrap_or_default();
    assert!(refusal.contains("has 1 replicas, fewer than the 3"), "{refusal}");
    let single = judge_stream(&NatsOptions::new("h"), &sound(), true);
    assert_eq!(single.refusal, None);
    assert!(single.warnings[0].contains("Use replicas=3"), "{:?}", single.warnings);
}

#[test]
fn an_old_server_is_refused() {
    assert!(judge_version("2.8.4").unwrap_or_default().contains("at least 2.9"));
    assert_eq!(judge_version("2.9.10"), None);
    assert_eq!(judge_version("2.15.1-beta.2"), None);
    assert_eq!(judge_version("3.0.0"), None);
}

#[test]
fn a_job_that_could_outgrow_a_message_is_refused_with_the_numbers() {
    assert!(size(1 << 20, "job", 1_390).is_ok());
    let error = size(1 << 20, "job", 100_000).expect_err("too many");
    assert_eq!(error.code(), Some(Code::InvalidOption));
    for says in ["up to 100000 records", "524288 bytes are allowed", "1394 at most"] {
        assert!(error.message().contains(says), "{error}");
    }
}
