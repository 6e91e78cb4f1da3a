//! The contract between scheduler and store, and what both sides share of it.

pub mod contract;
pub mod guard;
pub mod history;
mod patience;
pub mod shared;
