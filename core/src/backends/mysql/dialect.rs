//! What differs in MySQL and MariaDB.

use std::sync::Arc;

use async_trait::async_trait;

use crate::backends::sql::{SqlDialect, SqlQueryable};
use crate::error::{Error, Result};

/// The dialect of MySQL and MariaDB.
#[derive(Clone, Copy, Debug, Default)]
pub struct MySqlDialect;

#[async_trait]
impl SqlDialect for MySqlDialect {
    fn bigint(&self) -> String {
        "BIGINT".to_owned()
    }

    /// `UNIX_TIMESTAMP` of a local time would be an hour ahead all through the first pass of the
    /// hour that is repeated when summer time ends; the difference of two UTC times never is.
    fn now_ms(&self) -> String {
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000".to_owned()
    }

    fn for_update(&self) -> String {
        "FOR UPDATE".to_owned()
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

    /// An index cannot be created "if not exists" in MySQL.
    fn is_already_created(&self, error: &Error) -> bool {
        let message = error.message();
        message.contains("Duplicate key name") || message.contains("(1061)")
    }

    /// Text would be compared without case, accents and trailing spaces; `VARBINARY` tells them
    /// apart, and emoji from each other.
    fn key_text(&self) -> String {
        "VARBINARY(255)".to_owned()
    }

    fn long_text(&self) -> String {
        "LONGTEXT CHARACTER SET utf8mb4".to_owned()
    }

    fn insert_if_absent(&self, insert: &str) -> String {
        insert.replacen("INSERT INTO", "INSERT IGNORE INTO", 1)
    }

    fn unfinished_index(&self, table: &str) -> String {
        format!("CREATE INDEX {table}_open ON {table} (namespace, job, status)")
    }
}
