//! A job scheduler for applications that run in several replicas.
//!
//! Every replica runs the same scheduler; there is no leader. All replicas compute the same slots,
//! wait a random jitter, and claim the slot in a store they share: for one job and one slot exactly
//! one replica wins and runs the handler.

pub mod backend;
pub mod backends;
pub mod clock;
pub mod error;
pub mod events;
pub mod host;
pub mod lease;
pub mod mends;
pub mod random;
pub mod schedule;
pub mod scheduler;
pub mod testing;

pub use error::{Code, Error, Result};
