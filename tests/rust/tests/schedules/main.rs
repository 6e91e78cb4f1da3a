//! Schedules from outside: given values, and properties against a slow oracle.

mod oracle;
mod parser;
mod properties;
mod vectors;

use jiff::Timestamp;
use proptest::test_runner::{Config, RngSeed};

/// The same cases in every run; `PROPTEST_RNG_SEED` gives others. A failure prints its input whole.
fn config(cases: u32) -> Config {
    let given = Config::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(2_147_483_648),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    let max_global_rejects = cases * 16;
    Config { cases, max_global_rejects, rng_seed, failure_persistence: None, ..given }
}

/// The ms of an instant text.
fn ms(text: &str) -> i64 {
    match text.parse::<Timestamp>() {
        Ok(instant) => instant.as_millisecond(),
        Err(error) => panic!("{text} is not an instant: {error}"),
    }
}

/// The text of an instant.
fn text(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |at| at.to_string())
}
