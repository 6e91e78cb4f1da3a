//! The real scheduler, simulated: fleets on a virtual clock and behind a bad network, each seed
//! held against the nine invariants of the lease rules.
//!
//! `ANARCHON_SEED=17 cargo test -p anarchon-tests --test simulation` replays seed 17 exactly and
//! prints what happened; `ANARCHON_SEEDS=5000` runs so many.

mod plan;
mod world;

use std::fmt::Write as _;

use anarchon::mends::{self, Mend};
use world::{Outcome, simulate};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn trace(outcome: &Outcome, last: usize) -> String {
    let skipped = outcome.seen.len().saturating_sub(last);
    let mut text = String::new();
    for (index, one) in outcome.seen.iter().enumerate().skip(skipped) {
        let _written = writeln!(text, "{index:>6} {one}");
    }
    text
}

#[test]
fn the_invariants_hold_for_every_seed() {
    let replayed = number("ANARCHON_SEED");
    let count = number("ANARCHON_SEEDS").unwrap_or(60);
    let seeds = replayed.map_or(0..count, |seed| seed..seed + 1);
    let mut failed = Vec::new();
    for seed in seeds {
        let outcome = simulate(seed);
        if replayed.is_some() {
            println!("{:#?}", plan::Plan::draw(seed));
            println!("{}", trace(&outcome, usize::MAX));
        }
        if let Some(violation) = &outcome.violation {
            failed.push(format!("seed {seed}: {violation}"));
        }
    }
    assert!(
        failed.is_empty(),
        "{}\nreplay: ANARCHON_SEED=<seed> cargo test -p anarchon-tests --test simulation",
        failed.join("\n")
    );
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in [0, 1, 4] {
        let (once, again) = (simulate(seed), simulate(seed));
        assert_eq!(trace(&once, usize::MAX), trace(&again, usize::MAX), "seed {seed}");
    }
}

/// Finds the first seed that fails, among so many.
fn first_failing(seeds: u64) -> Option<(u64, String)> {
    let failing = |seed| simulate(seed).violation.map(|violation| (seed, violation.to_string()));
    (0..seeds).find_map(failing)
}

#[test]
fn without_a_mend_the_simulation_finds_a_violation() {
    // A mend, and how many seeds show at the latest that it is gone.
    for (mend, seeds) in [(Mend::F01, 120), (Mend::F02, 8), (Mend::F10, 8)] {
        let _out = mends::take_out(mend);
        assert!(first_failing(seeds).is_some(), "{mend:?} is out and {seeds} seeds do not show it");
    }
}
