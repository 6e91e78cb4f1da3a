//! For tests: a clock that moves when told to, faults on purpose, and the conformance suite.

pub mod conformance;
pub mod manual_clock;

pub use manual_clock::ManualClock;
