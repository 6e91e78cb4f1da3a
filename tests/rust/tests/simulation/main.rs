//! The real scheduler, simulated: fleets on a virtual clock and behind a bad network, each seed
//! held against the nine invariants of the lease rules.
//!
//! `ANARCHON_SEED=17 cargo test -p anarchon-tests --test simulation` replays seed 17 exactly and
//! prints what happened; `ANARCHON_SEEDS=5000` runs so many.

mod plan;
mod world;

use std::fmt::Write as _;

use anarchon::mends::{self, Mend};
use plan::Focus;
use world::{Outcome, simulate};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The mend that `ANARCHON_WITHOUT` takes out, to look at what a fault does.
fn without() -> Option<mends::TakenOut> {
    let name = std::env::var("ANARCHON_WITHOUT").ok()?;
    let named = Mend::ALL.into_iter().find(|mend| format!("{mend:?}") == name);
    Some(mends::take_out(named.unwrap_or_else(|| panic!("there is no mend {name}"))))
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
    let _out = without();
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

/// Finds the first seed that fails, among the first so many of a focus.
fn first_failing(focus: Focus, count: u64) -> Option<String> {
    let failing = |seed| {
        let violation = simulate(seed).violation?;
        Some(format!("seed {seed}: {violation}"))
    };
    focus.seeds(count).find_map(failing)
}

/// A mend, where its absence shows best, and after how many seeds at the latest.
const MENDS: [(Mend, Focus, u64); 9] = [
    (Mend::F01, Focus::Outages, 130),
    (Mend::F02, Focus::Deploys, 20),
    (Mend::F08, Focus::Deploys, 50),
    (Mend::F10, Focus::Pauses, 10),
    (Mend::F13, Focus::Duplicates, 70),
    (Mend::F19, Focus::SetBack, 40),
    (Mend::G03, Focus::Disagreement, 40),
    (Mend::T01, Focus::Mixed, 10),
    (Mend::T07, Focus::Trimming, 20),
];

#[test]
fn without_a_mend_the_simulation_finds_a_violation() {
    let mut unseen = Vec::new();
    for (mend, focus, count) in MENDS {
        let _out = mends::take_out(mend);
        let found = first_failing(focus, count);
        println!("without {mend:?}: {found:?}");
        if found.is_none() {
            unseen.push(format!("{mend:?} is out and {count} seeds of {focus:?} do not show it"));
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}
