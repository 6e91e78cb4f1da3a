//! What a MySQL or MariaDB server must be like.

use std::sync::Arc;

use crate::backends::sql::server::skew_warning;
use crate::backends::sql::{SqlClient, SqlValue, Tables};
use crate::clock::{Clock, SystemClock};
use crate::error::{Code, Error, Result};

/// What the server said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// For example `8.0.36` or `10.11.6-MariaDB-0+deb12u1`.
    version: String,
    only_reads: bool,
    /// `innodb_flush_log_at_trx_commit`.
    flush: i64,
    /// The tables that are not kept by InnoDB, if they are there.
    other_engines: i64,
    now_ms: i64,
}

const COLUMNS: [&str; 5] = ["version", "only_reads", "flush", "other_engines", "now_ms"];

/// Asks the server, refuses what breaks the promise, and warns about what weakens it.
pub(super) async fn check(
    client: &Arc<dyn SqlClient>,
    tables: &Tables,
    now: &str,
    allow_lazy_flush: bool,
) -> Result<()> {
    let sql = format!(
        "SELECT VERSION() AS version, @@GLOBAL.read_only AS only_reads, \
         @@GLOBAL.innodb_flush_log_at_trx_commit AS flush, \
         (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND table_name IN (?, ?) AND engine <> 'InnoDB') AS other_engines, {now} AS now_ms"
    );
    let sent = SystemClock.wall_ms();
    let params = [&tables.jobs, &tables.runs].map(|table| SqlValue::Text(table.clone()));
    let rows = client.all(&sql, &params).await?;
    let answered = SystemClock.wall_ms();
    let silent = || Error::unavailable("MySQL did not say what it is");
    let values = rows.into_iter().next().ok_or_else(silent)?.into_order(&COLUMNS)?;
    let server = Server {
        version: values[0].text().unwrap_or_default().into_owned(),
        only_reads: values[1].truth().unwrap_or(false),
        flush: values[2].whole().unwrap_or(1),
        other_engines: values[3].whole().unwrap_or(0),
        now_ms: values[4].whole().unwrap_or(answered),
    };
    for warning in judged(&server, allow_lazy_flush, sent, answered)? {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Whether it is MySQL 8.0 or MariaDB 10.5, or later.
fn is_recent(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version_number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version.to_ascii_lowercase().contains("mariadb") {
        true => version_number >= (10, 5),
        false => version_number >= (8, 0),
    }
}

/// The warnings, or the refusal.
pub(super) fn judged(
    server: &Server,
    allow_lazy_flush: bool,
    sent: i64,
    answered: i64,
) -> Result<Vec<String>> {
    let refused = |what: String| Err(Error::new(Code::BackendRefused, what));
    if !is_recent(&server.version) {
        return refused(format!(
            "the server is {}; wanted is MySQL 8.0 or MariaDB 10.5, or later",
            server.version
        ));
    }
    if server.only_reads {
        return Err(Error::unavailable(
            "MySQL only reads (read_only is on): it is a replica. Name the address that leads to \
             the server that writes",
        ));
    }
    if server.other_engines > 0 {
        return refused(
            "the tables are not kept by InnoDB, so nothing could be rolled back; change them: \
             ALTER TABLE … ENGINE = InnoDB"
                .to_owned(),
        );
    }
    let mut warnings = Vec::new();
    match server.flush {
        0 if !allow_lazy_flush => {
            return refused(
                "innodb_flush_log_at_trx_commit is 0: when the server is killed up to a second of \
                 claims is forgotten, and their slots run again. Set it to 1, or take the risk \
                 with allowLazyFlush=true"
                    .to_owned(),
            );
        }
        1 => {}
        lazy => warnings.push(format!(
            "innodb_flush_log_at_trx_commit is {lazy}: when the machine crashes{} up to a second \
             of claims is forgotten, and their slots may run again. Set it to 1",
            if lazy == 0 { " or the server is killed" } else { "" }
        )),
    }
    warnings.extend(skew_warning("MySQL", server.now_ms, sent, answered));
    Ok(warnings)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
