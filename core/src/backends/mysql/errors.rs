//! What MySQL and MariaDB say, sorted: refused, or unknown; and what becomes of the connection.

use sqlx::mysql::MySqlDatabaseError;

use crate::backends::sql::ServerOptions;
use crate::backends::sql::pool::{Failure, Fate};
use crate::error::{Code, Error};

/// The error of a statement or of connecting.
pub(super) fn sorted(error: &sqlx::Error, server: &ServerOptions) -> Failure {
    match number(error) {
        Some((number, message)) => database(number, &server.without_user(message), &server.place()),
        None => driver(error, server),
    }
}

/// Whether a statement was not run because it is not prepared: a proxy gave the transaction another
/// connection, or the server prepares no more.
pub(super) fn is_unprepared(error: &sqlx::Error) -> bool {
    /// "Unknown prepared statement handler".
    const UNKNOWN: u16 = 1243;
    /// "This command is not supported in the prepared statement protocol yet".
    const UNSUPPORTED: u16 = 1295;
    /// "Can't create more than max_prepared_stmt_count statements".
    const TOO_MANY: u16 = 1461;
    matches!(number(error), Some((UNKNOWN | UNSUPPORTED | TOO_MANY, _)))
}

fn number(error: &sqlx::Error) -> Option<(u16, &str)> {
    let said = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some((said.number(), said.message()))
}

fn database(number: u16, message: &str, place: &str) -> Failure {
    let refused = |what: String| Error::new(Code::BackendRefused, what);
    let unknown = || Error::unavailable(format!("MySQL failed ({number}): {message}"));
    let (error, conn) = match number {
        1044 | 1045 | 1698 => (
            refused(format!(
                "MySQL at {place} refused the user or the password, or this user may not use this \
                 database; check them, and sslMode"
            )),
            Fate::Broken,
        ),
        1049 => (refused(format!("MySQL at {place} has no such database")), Fate::Broken),
        1142 | 1143 | 1227 => (
            refused(format!(
                "MySQL does not permit it ({message}); grant this user SELECT, INSERT, UPDATE and \
                 DELETE on the tables, and CREATE and INDEX or use createTables=false"
            )),
            Fate::Broken,
        ),
        // Unknown column, syntax, no such table, unknown collation and the like.
        1054 | 1064 | 1146 | 1366 | 1406 => {
            (refused(format!("MySQL refused a statement ({number}): {message}")), Fate::Broken)
        }
        // Rolled back as a whole: the connection has no open transaction.
        1213 => (unknown(), Fate::Usable),
        // The duplicate key of an index that is there, told apart by whoever created it.
        1061 => (unknown(), Fate::Usable),
        1290 | 1792 | 1836 | 3100 => (
            Error::unavailable(format!("MySQL at {place} only reads now ({message})")),
            Fate::ServerGone,
        ),
        // Shutdown, killed, gone away, lost.
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 => {
            (unknown(), Fate::ServerGone)
        }
        // 1205 and all else may leave a transaction open: it ends with the connection.
        _ => (unknown(), Fate::Broken),
    };
    Failure { error, conn }
}

fn driver(error: &sqlx::Error, server: &ServerOptions) -> Failure {
    let (place, said) = (server.place(), server.without_user(&error.to_string()));
    match error {
        sqlx::Error::Configuration(_) => Failure::broken(Error::new(
            Code::BackendRefused,
            format!("MySQL at {place} cannot be reached so: {said}"),
        )),
        sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Encode(_) => {
            Failure::broken(Error::new(
                Code::BackendRefused,
                format!("MySQL at {place} answered what cannot be read: {said}"),
            ))
        }
        _ => Failure {
            error: Error::unavailable(format!("MySQL at {place} does not answer: {said}")),
            conn: Fate::ServerGone,
        },
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
