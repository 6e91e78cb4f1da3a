//! The scripts: one for each operation, all of them with the same clock, state and rules in front.
//!
//! A script is sent by its hash. A server that does not know it (restarted, failed over, flushed)
//! says so and is sent the text once.

use std::sync::LazyLock;

const CLOCK: &str = include_str!("lua/clock.lua");
const GIVEN_CLOCK: &str = include_str!("lua/given_clock.lua");
const STATE: &str = include_str!("lua/state.lua");
const RULES: &str = include_str!("lua/rules.lua");

/// What is done in one step on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Claim,
    ClaimOnly,
    ClaimManual,
    Heartbeat,
    Finish,
    Release,
    Cancel,
    SaveResult,
    Register,
    Survey,
    Active,
    RecordMissed,
    SetPaused,
    Forget,
    History,
}

impl Operation {
    const ALL: [(Operation, &'static str); 15] = [
        (Operation::Claim, include_str!("lua/claim.lua")),
        (Operation::ClaimOnly, include_str!("lua/claim_only.lua")),
        (Operation::ClaimManual, include_str!("lua/claim_manual.lua")),
        (Operation::Heartbeat, include_str!("lua/heartbeat.lua")),
        (Operation::Finish, include_str!("lua/finish.lua")),
        (Operation::Release, include_str!("lua/release.lua")),
        (Operation::Cancel, include_str!("lua/cancel.lua")),
        (Operation::SaveResult, include_str!("lua/save_result.lua")),
        (Operation::Register, include_str!("lua/register.lua")),
        (Operation::Survey, include_str!("lua/survey.lua")),
        (Operation::Active, include_str!("lua/active.lua")),
        (Operation::RecordMissed, include_str!("lua/record_missed.lua")),
        (Operation::SetPaused, include_str!("lua/set_paused.lua")),
        (Operation::Forget, include_str!("lua/forget.lua")),
        (Operation::History, include_str!("lua/history.lua")),
    ];

    /// How many of a job's keys the script works on.
    pub(super) fn key_count(self) -> usize {
        match self {
            Operation::Active => 1,
            Operation::Survey
            | Operation::RecordMissed
            | Operation::SetPaused
            | Operation::Forget => 5,
            _ => 4,
        }
    }

    /// Whether the answer promises something that must not be lost again.
    pub(super) fn promises(self) -> bool {
        !matches!(self, Operation::Survey | Operation::Active | Operation::History)
    }
}

/// A script as it is sent.
pub(super) struct Script {
    /// The whole text.
    pub(super) text: String,
    /// Its SHA-1, by which the server knows it.
    pub(super) hash: String,
}

/// All scripts, on one clock.
pub(super) struct Scripts(Vec<Script>);

impl Scripts {
    fn with_clock(clock: &str) -> Scripts {
        let scripts = Operation::ALL.iter().map(|(_, operation)| {
            let text = [clock, STATE, RULES, operation].join("\n");
            let hash = redis::Script::new(&text).get_hash().to_owned();
            Script { text, hash }
        });
        Scripts(scripts.collect())
    }

    /// The scripts on the server's clock, or on one that is given with each call.
    pub(super) fn on_clock(is_given: bool) -> &'static Scripts {
        static SERVER: LazyLock<Scripts> = LazyLock::new(|| Scripts::with_clock(CLOCK));
        static GIVEN: LazyLock<Scripts> = LazyLock::new(|| Scripts::with_clock(GIVEN_CLOCK));
        if is_given { &GIVEN } else { &SERVER }
    }

    pub(super) fn get(&self, operation: Operation) -> &Script {
        &self.0[operation as usize]
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
