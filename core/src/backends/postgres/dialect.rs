//! What differs in PostgreSQL.

use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backends::sql::{SqlDialect, SqlQueryable};
use crate::error::{Error, Result};

/// PostgreSQL's dialect.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostgresDialect;

#[async_trait]
impl SqlDialect for PostgresDialect {
    fn bigint(&self) -> String {
        "BIGINT".to_owned()
    }

    /// `now()` would be the beginning of the transaction.
    fn now_ms(&self) -> String {
        "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)".to_owned()
    }

    fn for_update(&self) -> String {
        "FOR UPDATE".to_owned()
    }

    fn placeholders(&self, sql: &str) -> String {
        let mut text = String::with_capacity(sql.len() + 16);
        for (number, part) in sql.split('?').enumerate() {
            if number > 0 {
                let _infallible = write!(text, "${number}");
            }
            text.push_str(part);
        }
        text
    }

    fn extra_tables(&self, _table: &str) -> Vec<String> {
        Vec::new()
    }

    async fn serialize(&self, _tx: &Arc<dyn SqlQueryable>, _job: &str) -> Result<()> {
        Ok(())
    }

    /// Several that create one table at once: the later ones fail, their transaction with them, and
    /// they look again.
    fn is_already_created(&self, _error: &Error) -> bool {
        false
    }

    /// Byte by byte, whatever the database's collation is.
    fn key_text(&self) -> String {
        "TEXT COLLATE \"C\"".to_owned()
    }

    fn insert_if_absent(&self, insert: &str) -> String {
        format!("{insert} ON CONFLICT DO NOTHING")
    }

    /// A partial index: a run leaves it when it ends, so it stays as small as what is running.
    fn unfinished_index(&self, table: &str) -> String {
        let name = table.rsplit('.').next().unwrap_or(table);
        format!(
            "CREATE INDEX IF NOT EXISTS {name}_open ON {table} (namespace, job) \
             WHERE status IS NULL"
        )
    }
}
