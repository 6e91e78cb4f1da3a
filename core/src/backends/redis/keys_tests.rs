use std::collections::HashSet;

use super::{of_job, of_wakes};

#[test]
fn names_that_differ_have_keys_that_differ() {
    let long = "x".repeat(255);
    let names = [
        "a:b",
        "a b",
        "a.b",
        ".a",
        "a..b",
        "a*",
        "a>",
        "jób",
        "jo\u{301}b",
        "Job",
        "job",
        "job ",
        "a%3Ab",
        "{a}",
        "a}",
        "}{",
        "😀",
        "😁",
        "x'; drop table claim;--",
        &long,
        &long[..254],
    ];
    let keys: HashSet<String> = names.iter().flat_map(|name| of_job("p", "n", name)).collect();
    assert_eq!(keys.len(), names.len() * 5);
}

#[test]
fn a_namespace_and_a_name_never_run_together() {
    assert_ne!(of_job("p", "a", "b:c"), of_job("p", "a:b", "c"));
    assert_ne!(of_wakes("p", "a", 0), of_wakes("p", "a", 1));
}

#[test]
fn all_keys_of_a_job_have_one_hash_tag() {
    for key in of_job("anarchon", "default", "nightly {report}") {
        assert!(key.starts_with("anarchon:{default:nightly%20%7Breport%7D}:"), "{key}");
        assert_eq!(key.matches(['{', '}']).count(), 2, "{key}");
    }
}
