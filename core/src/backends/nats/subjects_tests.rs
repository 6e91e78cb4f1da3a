use std::collections::BTreeSet;

use super::{of_bodies, of_body, of_job, of_stream, of_wakes};
use crate::lease::model::RunKey;

const NAMES: [&str; 14] = [
    "a.b",
    "a%2Eb",
    "a%b",
    "a b",
    "a*",
    "a>",
    ".a",
    "a..b",
    "Job",
    "job",
    "job ",
    "j\u{f3}b",
    "jo\u{301}b",
    "\u{1f600}",
];

#[test]
fn no_two_names_share_a_subject_and_none_has_more_parts() {
    let subjects: BTreeSet<String> = NAMES.iter().map(|job| of_job("p", "ns", job)).collect();
    assert_eq!(subjects.len(), NAMES.len());
    for subject in subjects {
        assert_eq!(subject.split('.').count(), 4, "{subject}");
        assert!(!subject.contains([' ', '*', '>']), "{subject}");
    }
}

#[test]
fn a_namespace_and_a_job_cannot_be_taken_for_each_other() {
    assert_ne!(of_job("p", "a.job", "b"), of_job("p", "a", "job.b"));
    assert_eq!(of_job("p", "a", "b:c"), "p.a.job.b%3Ac");
}

#[test]
fn a_body_lies_beside_its_job_and_belongs_to_one_writing() {
    let body = of_body("p", "ns", "a.b", RunKey::manual(-5), "x1");
    assert_eq!(body, "p.ns.body.a%2Eb.-5m.x1");
    assert_eq!(of_bodies("p", "ns", "a.b"), "p.ns.body.a%2Eb.>");
}

#[test]
fn a_name_of_255_bytes_stays_far_below_what_a_line_of_the_protocol_may_have() {
    let subject = of_body("p", "ns", &"\u{e9}".repeat(127), RunKey::scheduled(1), "x");
    assert!(subject.len() < 1_024, "{}", subject.len());
}

#[test]
fn the_ends_of_runs_are_told_on_a_subject_that_the_stream_does_not_keep() {
    let wake = of_wakes("p", "job");
    assert_eq!(wake, "p.job.wake");
    assert!(of_stream("p").iter().all(|kept| kept.split('.').nth(2) != Some("wake")));
}
