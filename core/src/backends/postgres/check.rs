//! What a PostgreSQL server must be like.

use std::sync::Arc;

use crate::backends::sql::{SqlClient, SqlValue, Tables};
use crate::clock::{Clock, SystemClock};
use crate::error::{Code, Error, Result};

/// The oldest version: `MATERIALIZED` came with it.
const OLDEST: i64 = 120_000;

/// What the server said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    version: i64,
    only_reads: bool,
    synchronous_commit: String,
    fsync: String,
    unlogged: i64,
    now_ms: i64,
}

const COLUMNS: [&str; 6] =
    ["version", "only_reads", "synchronous_commit", "fsync", "unlogged", "now_ms"];

/// Asks the server, refuses what breaks the promise, and warns about what weakens it.
pub(super) async fn check(client: &Arc<dyn SqlClient>, tables: &Tables, now: &str) -> Result<()> {
    let sql = format!(
        "SELECT CAST(current_setting('server_version_num') AS BIGINT) AS version, \
         (pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on') AS only_reads, \
         current_setting('synchronous_commit') AS synchronous_commit, \
         current_setting('fsync') AS fsync, \
         (SELECT COUNT(*) FROM pg_class WHERE relpersistence = 'u' \
         AND oid IN (to_regclass($1), to_regclass($2))) AS unlogged, {now} AS now_ms"
    );
    let sent = SystemClock.wall_ms();
    let params = [&tables.jobs, &tables.runs].map(|table| SqlValue::Text(table.clone()));
    let rows = client.all(&sql, &params).await?;
    let answered = SystemClock.wall_ms();
    let row = rows.into_iter().next();
    let silent = || Error::unavailable("PostgreSQL did not say what it is");
    let values = row.ok_or_else(silent)?.into_order(&COLUMNS)?;
    let text = |index: usize| values[index].text().unwrap_or_default().into_owned();
    let server = Server {
        version: values[0].whole().unwrap_or(0),
        only_reads: values[1].truth().unwrap_or(false),
        synchronous_commit: text(2),
        fsync: text(3),
        unlogged: values[4].whole().unwrap_or(0),
        now_ms: values[5].whole().unwrap_or(answered),
    };
    for warning in judged(&server, sent, answered)? {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// The warnings, or the refusal.
pub(super) fn judged(server: &Server, sent: i64, answered: i64) -> Result<Vec<String>> {
    if server.version < OLDEST {
        return Err(Error::new(
            Code::BackendRefused,
            format!("the server is PostgreSQL {}; wanted is 12 or later", server.version / 10_000),
        ));
    }
    if server.only_reads {
        return Err(Error::unavailable(
            "PostgreSQL only reads: it is a standby, or default_transaction_read_only is on. Name \
             the address that leads to the server that writes",
        ));
    }
    let mut warnings = Vec::new();
    if server.synchronous_commit == "off" {
        warnings.push(
            "synchronous_commit is off: when the server crashes the last claims are forgotten and \
             their slots may run again. Set it to on for this user: ALTER ROLE … SET \
             synchronous_commit = on"
                .to_owned(),
        );
    }
    if server.fsync == "off" {
        warnings.push(
            "fsync is off: when the machine crashes the database may be damaged, and claims are \
             forgotten. Set it to on"
                .to_owned(),
        );
    }
    if server.unlogged > 0 {
        warnings.push(
            "the tables are UNLOGGED: when the server crashes they are emptied and slots may run \
             again. Set them LOGGED: ALTER TABLE … SET LOGGED"
                .to_owned(),
        );
    }
    warnings.extend(crate::backends::sql::server::skew_warning(
        "PostgreSQL",
        server.now_ms,
        sent,
        answered,
    ));
    Ok(warnings)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
