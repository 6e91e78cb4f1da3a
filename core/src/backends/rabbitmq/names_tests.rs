use std::collections::BTreeSet;

use super::{About, Place};

const fn place<'a>(namespace: &'a str, job: &'a str) -> Place<'a> {
    Place { prefix: "anarchon", namespace, job }
}

#[test]
fn a_name_can_be_read_and_ends_with_a_hash_of_the_whole() {
    // The hash is the beginning of `printf '7:default5:claim7:nightly13:1764691200000' | sha256sum`.
    let name = place("default", "nightly").queue(About::Claim(1_764_691_200_000));
    assert_eq!(
        name,
        "anarchon.default.claim.nightly.1764691200000.3b2a5f87e82451fa7aa76f7f483b2359"
    );
    let name = place("default", "nightly").queue(About::Records);
    assert_eq!(name, "anarchon.default.records.nightly.20f65a935c27f2d6cc0a9e924d24bf3c");
}

#[test]
fn names_of_different_things_differ() {
    let jobs = ["a", "A", "a ", "a_", "a.b", "a:b", "\u{e9}", "e\u{301}", "\u{1f980}", "1", "a1"];
    let abouts = [About::Claim(1), About::Claim(11), About::Manual(1), About::Records];
    let mut names = BTreeSet::new();
    for namespace in ["default", "a", "a1"] {
        for job in jobs.into_iter().chain([&*"n".repeat(254), &*"n".repeat(255)]) {
            names.extend(abouts.map(|about| place(namespace, job).queue(about)));
        }
    }
    assert_eq!(names.len(), 3 * (jobs.len() + 2) * abouts.len());
}

#[test]
fn the_longest_name_fits_into_255_bytes() {
    let (long, job) = ("p".repeat(64), "\u{1f980}".repeat(63));
    let place = Place { prefix: &long, namespace: &long, job: &job };
    for about in [About::Claim(i64::MIN), About::Manual(i64::MAX), About::Records] {
        let name = place.queue(about);
        assert!(name.len() <= 255, "{} bytes", name.len());
    }
}
