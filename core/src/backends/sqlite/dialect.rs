//! What differs in SQLite.

use std::sync::Arc;

use async_trait::async_trait;

use crate::backends::sql::{SqlDialect, SqlQueryable};
use crate::error::{Error, Result};

/// SQLite's dialect. Its text compares byte by byte, and one writer at a time is let in anyway.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteDialect;

#[async_trait]
impl SqlDialect for SqliteDialect {
    fn bigint(&self) -> String {
        "INTEGER".to_owned()
    }

    fn now_ms(&self) -> String {
        "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)".to_owned()
    }

    fn for_update(&self) -> String {
        String::new()
    }

    fn placeholders(&self, sql: &str) -> String {
        sql.to_owned()
    }

    fn extra_tables(&self, _table: &str) -> Vec<String> {
        Vec::new()
    }

    async fn serialize(&self, _tx: &Arc<dyn SqlQueryable>, _job: &str) -> Result<()> {
        Ok(())
    }

    fn is_already_created(&self, _error: &Error) -> bool {
        false
    }

    fn key_text(&self) -> String {
        "TEXT".to_owned()
    }

    fn insert_if_absent(&self, insert: &str) -> String {
        format!("{insert} ON CONFLICT DO NOTHING")
    }

    /// A partial index: a run leaves it when it ends, so it stays as small as what is running.
    fn unfinished_index(&self, table: &str) -> String {
        format!(
            "CREATE INDEX IF NOT EXISTS {table}_open ON {table} (namespace, job) \
             WHERE status IS NULL"
        )
    }
}
