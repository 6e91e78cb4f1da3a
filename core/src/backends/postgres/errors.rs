//! What PostgreSQL says, sorted: refused, or unknown; and what becomes of the connection.

use crate::backends::sql::ServerOptions;
use crate::backends::sql::pool::{Failure, Fate};
use crate::error::{Code, Error};

/// The error, and whether prepared statements were lost on the way (a pooler gave the transaction
/// another connection).
pub(super) fn sorted(error: &sqlx::Error, server: &ServerOptions) -> (Failure, bool) {
    let Some(said) = error.as_database_error() else {
        return (driver(error, server), false);
    };
    let code = said.code().unwrap_or_default();
    let message = server.without_user(said.message());
    // Not there, there already, or somebody else's of the same name.
    let unprepared = matches!(code.as_ref(), "26000" | "42P05" | "08P01");
    (database(&code, &message, &server.place()), unprepared)
}

fn database(code: &str, message: &str, place: &str) -> Failure {
    let refused = |what: String| Error::new(Code::BackendRefused, what);
    let (error, conn) = match code {
        "28P01" | "28000" => (
            refused(format!(
                "PostgreSQL at {place} refused the user or the password, or demands TLS; check \
                 them, and sslMode"
            )),
            Fate::Broken,
        ),
        "3D000" => (refused(format!("PostgreSQL at {place} has no such database")), Fate::Broken),
        "42501" => (
            refused(format!(
                "PostgreSQL does not permit it ({message}); grant this user SELECT, INSERT, UPDATE \
                 and DELETE on the tables, and CREATE on the schema or use createTables=false"
            )),
            Fate::Usable,
        ),
        "3F000" => (
            refused(format!("{message}; create the schema, or name another one with schema")),
            Fate::Usable,
        ),
        "22021" => {
            (refused(format!("PostgreSQL does not keep this text: {message}")), Fate::Usable)
        }
        // Several that create the same at once: looked at again.
        "42P07" | "42710" => (unknown(code, message), Fate::Usable),
        "26000" | "42P05" | "08P01" => (unknown(code, message), Fate::Broken),
        "25006" => (
            Error::unavailable(format!("PostgreSQL at {place} only reads now ({message})")),
            Fate::ServerGone,
        ),
        _ if code.starts_with("42") => {
            (refused(format!("PostgreSQL refused a statement ({code}): {message}")), Fate::Usable)
        }
        _ if code.starts_with("57P") || code.starts_with("08") => {
            (unknown(code, message), Fate::ServerGone)
        }
        _ if code.starts_with("53") || code.starts_with("XX") => {
            (unknown(code, message), Fate::Broken)
        }
        // Also 40001 and 40P01: rolled back, and tried again by the engine.
        _ => (unknown(code, message), Fate::Usable),
    };
    Failure { error, conn }
}

fn unknown(code: &str, message: &str) -> Error {
    Error::unavailable(format!("PostgreSQL failed ({code}): {message}"))
}

fn driver(error: &sqlx::Error, server: &ServerOptions) -> Failure {
    let (place, said) = (server.place(), server.without_user(&error.to_string()));
    match error {
        sqlx::Error::Configuration(_) => Failure::broken(Error::new(
            Code::BackendRefused,
            format!("PostgreSQL at {place} cannot be reached so: {said}"),
        )),
        sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Encode(_) => {
            Failure::broken(Error::new(
                Code::BackendRefused,
                format!("PostgreSQL at {place} answered what cannot be read: {said}"),
            ))
        }
        _ => Failure {
            error: Error::unavailable(format!("PostgreSQL at {place} does not answer: {said}")),
            conn: Fate::ServerGone,
        },
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
