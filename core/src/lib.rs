//! A job scheduler for applications that run in several replicas.
//!
//! Every replica runs the same scheduler; there is no leader. All replicas compute the same slots,
//! wait a random jitter, and claim the slot in a store they share: for one job and one slot exactly
//! one replica wins and runs the handler.

pub mod error;
pub mod schedule;

pub use error::{Code, Error, Result};
