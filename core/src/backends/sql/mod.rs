//! One engine for all SQL databases; a dialect states what differs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `client.rs` | what is asked of a driver: statements and transactions, values and rows |
//! | `dialect.rs` | what differs between databases |
//! | `schema.rs` | the tables |
//! | `statements.rs` | the statements that read, and the texts of all |
//! | `load.rs` | from rows to the state that is decided upon |
//! | `decide.rs` | what a call must see, what it answers, what is to be written |
//! | `write.rs` | the statements that change something |
//! | `plan.rs` | from a decision to guarded writes |
//! | `apply.rs` | how they are applied in a transaction of any client |
//! | `engine.rs` | what an open store is, and its single steps: reading, applying |
//! | `batch.rs` | calls that travel together, and again where it was in vain |
//! | `attempt.rs` | one attempt: load, decide, apply |
//! | `failures.rs` | which failures of a call are worth another try |
//! | `open.rs` | connecting, checking, creating the tables |
//! | `backend.rs` | the contract on top |
//! | `server.rs` | how a database server is reached: options and URLs |
//! | `driver.rs` | what the drivers of the servers are told alike |
//! | `pool.rs` | connections to a server, one kept apart for heartbeats |

mod apply;
mod attempt;
mod backend;
mod batch;
mod client;
mod decide;
mod dialect;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::backends) mod driver;
mod engine;
mod failures;
mod load;
mod open;
mod plan;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::backends) mod pool;
mod schema;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::backends) mod server;
mod statements;
mod write;

pub use client::{Lane, Row, SqlClient, SqlQueryable, SqlValue, TransactionBody};
pub use dialect::SqlDialect;
pub use engine::{Access, CALL_TIMEOUT_MS, Connected, EngineOptions, SqlEngine, SqlStore};
pub use plan::{Step, Unit};
pub use schema::{DEFAULT_TABLE, SCHEMA_MAJOR, SCHEMA_MINOR, Tables};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use server::{ServerOptions, SslMode};
pub use write::Write;
