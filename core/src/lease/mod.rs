//! What a run is, and who decides about it.
//!
//! A **run** is one slot of one job. It is recorded in the store the moment somebody starts it, and
//! the record outlives the run: that is what keeps a slot from ever starting twice. The store is
//! the only authority. Instances ask; the answer is decided by [`rules`], a pure function of the
//! job's state, the call and the store's clock, under whatever atomicity the store has.
//!
//! ```text
//!            claim                 finish
//!   (none) ────────▶ running ───────────────▶ succeeded, failed, timed_out, cancelled
//!      │               │  ▲
//!      │ overlap       │  │ claim by another (attempt + 1, a new fence)
//!      ▼               ▼  │
//!   skipped          stalled ─── nobody may take it over ───▶ lost
//! ```
//!
//! A run is `running` while its lease is alive and `stalled` once the lease is over. The holder
//! proves itself by a token that nobody else knows, and trusts its lease only up to a deadline
//! counted from the moment *before* it sent the call that granted or renewed it ([`hold`]).

pub mod hold;
pub mod model;
pub mod rules;

#[cfg(test)]
mod rules_properties;
#[cfg(test)]
mod rules_tests;
