//! What an error of the server means.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::options::RedisOptions;
use crate::error::{Code, Error};

/// Whether the connection is of no use any more: it is gone, or leads to a server that cannot
/// write. The next call connects anew, and resolves the name anew.
pub(super) fn is_spent(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::ReadOnly
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
        ),
        _ => false,
    }
}

/// Whether asking again at once, over a new connection, can help.
pub(super) fn is_worth_repeating(error: &RedisError) -> bool {
    is_spent(error) && !error.is_timeout()
}

/// Whether the server does not know a script.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The error as callers see it. Everything that is not a refusal is unknown: neither won nor lost.
pub(super) fn told(options: &RedisOptions, error: &RedisError) -> Error {
    let place = options.address();
    let refused = |advice: &str| {
        let text = format!("Redis at {place} does not let us in: {error}. {advice}");
        Error::new(Code::BackendRefused, text)
    };
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
            refused("Check user and password of the URL")
        }
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => refused(
            "The user needs the commands EVAL, EVALSHA, TIME, INFO, GET, SET and those on hashes, \
             sorted sets and lists, on all keys and channels under the prefix",
        ),
        (ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot), _) => Error::new(
            Code::BackendRefused,
            format!("Redis at {place} is a node of a cluster; add cluster=true to the URL"),
        ),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => Error::unavailable(format!(
            "Redis at {place} is a replica that takes no writes; connecting anew"
        )),
        (_, Some("OOM")) => Error::unavailable(format!(
            "Redis at {place} is full (maxmemory) and takes no writes; give it more memory"
        )),
        _ => Error::unavailable(format!("Redis at {place}: {error}")),
    }
}
