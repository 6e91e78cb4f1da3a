//! For tests: a clock that moves when told to, faults on purpose, and the conformance suite.

pub mod chaos;
pub mod checker;
pub mod conformance;
pub mod manual_clock;
pub mod record;
pub mod skewed_clock;

pub use manual_clock::ManualClock;
