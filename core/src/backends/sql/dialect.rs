//! What differs between databases.

use std::sync::Arc;

use async_trait::async_trait;

use super::client::SqlQueryable;
use crate::error::{Error, Result};

/// What differs between databases. The engine's statements are otherwise the same everywhere.
#[async_trait]
pub trait SqlDialect: Send + Sync {
    /// The type of a 64-bit integer, for example `BIGINT`.
    fn bigint(&self) -> String;

    /// An expression that reads the database server's clock: milliseconds since the Unix epoch, a
    /// whole number. It must not be the clock of the transaction's start.
    fn now_ms(&self) -> String;

    /// What is put behind a `SELECT` to lock the rows that it reads, for example `FOR UPDATE`;
    /// empty where there is no such thing.
    fn for_update(&self) -> String;

    /// A statement with `?` for every parameter, in the database's own form (`$1`, `$2` …). No
    /// statement of the engine has a question mark elsewhere.
    fn placeholders(&self, sql: &str) -> String;

    /// Further statements that create what this database needs beside the runs table `table`.
    fn extra_tables(&self, table: &str) -> Vec<String>;

    /// Makes changes of one job take turns; called first in every transaction that changes it.
    ///
    /// # Errors
    /// Whatever the driver says; the transaction is then rolled back and tried again.
    async fn serialize(&self, tx: &Arc<dyn SqlQueryable>, job: &str) -> Result<()>;

    /// Whether this error says that what was to be created is there already (two instances that
    /// start at once).
    fn is_already_created(&self, error: &Error) -> bool;

    /// The type of the columns that names and tokens stand in: up to 255 bytes, compared byte by
    /// byte (case, trailing spaces and forms of Unicode are told apart), allowed in a key.
    fn key_text(&self) -> String {
        "VARCHAR(255)".to_owned()
    }

    /// The type of the columns that longer texts stand in: up to 64 KiB at least.
    fn long_text(&self) -> String {
        "TEXT".to_owned()
    }

    /// An `INSERT` that inserts nothing, without an error, where the key is there already. By
    /// default the statement as it is: the error is then one that is tried again.
    fn insert_if_absent(&self, insert: &str) -> String {
        insert.to_owned()
    }

    /// The statement that creates the index by which unfinished runs are found.
    fn unfinished_index(&self, table: &str) -> String {
        format!("CREATE INDEX IF NOT EXISTS {table}_status ON {table} (namespace, job, status)")
    }
}
