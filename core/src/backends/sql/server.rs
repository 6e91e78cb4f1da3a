//! How a database server is reached: what PostgreSQL and MySQL have in common, in code or in a URL.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::engine::{CALL_TIMEOUT_MS, EngineOptions};
use super::schema::DEFAULT_TABLE;
use crate::backends::given::{self, in_range, number, truth};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::host::names::nearest;

/// How far a connection is encrypted and the server's certificate is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Not encrypted.
    Disable,
    /// Encrypted if the server can do it.
    #[default]
    Prefer,
    /// Encrypted, whoever the server is.
    Require,
    /// Encrypted, and the certificate is signed by `ssl_ca` or an authority of the system.
    VerifyCa,
    /// As before, and the certificate is made out to the host's name.
    VerifyFull,
}

impl SslMode {
    /// The words of both databases.
    const WORDS: [(&'static str, SslMode); 8] = [
        ("disable", SslMode::Disable),
        ("prefer", SslMode::Prefer),
        ("require", SslMode::Require),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-full", SslMode::VerifyFull),
        ("disabled", SslMode::Disable),
        ("preferred", SslMode::Prefer),
        ("required", SslMode::Require),
    ];

    fn parse(text: &str) -> Result<SslMode> {
        let word = text.to_ascii_lowercase().replace('_', "-");
        let word = if word == "verify-identity" { "verify-full".to_owned() } else { word };
        let found = SslMode::WORDS.into_iter().find(|(known, _)| *known == word);
        found.map(|(_, mode)| mode).ok_or_else(|| {
            Error::option(format!(
                "sslMode is {text:?}; allowed are disable, prefer, require, verify-ca, verify-full"
            ))
        })
    }
}

/// How a database server is reached. `Debug` shows neither the user nor the password.
#[derive(Clone)]
pub struct ServerOptions {
    /// The name or address of the server; `None`: as the database's own clients choose it.
    pub host: Option<String>,
    /// The port; `None`: the usual one.
    pub port: Option<u16>,
    /// The path of a Unix socket, in place of host and port.
    pub socket: Option<PathBuf>,
    /// The user; `None`: as the database's own clients choose it.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The database.
    pub database: Option<String>,
    /// Keeps applications and environments in one database apart: 1 to 64 of `[a-z0-9_-]`.
    pub namespace: String,
    /// How many connections are used at most, beside one that is kept for heartbeats; at least 1.
    pub pool: usize,
    /// Whether missing tables are created.
    pub create_tables: bool,
    /// How many prepared statements each connection keeps. 0: none is prepared, as poolers need it
    /// that give each transaction another connection (PgBouncer before 1.21, ProxySQL).
    pub statement_cache: usize,
    /// The name of the runs table; the others are named after it.
    pub table: String,
    /// How long a call is tried again (ms); a call with a lease at most a sixth of it.
    pub call_timeout_ms: i64,
    /// How far the connection is encrypted; `None`: as the database's own clients choose it.
    pub ssl_mode: Option<SslMode>,
    /// A file with the certificates of the authorities that are trusted (PEM).
    pub ssl_ca: Option<PathBuf>,
    /// A file with our own certificate (PEM).
    pub ssl_cert: Option<PathBuf>,
    /// A file with the key of our own certificate (PEM).
    pub ssl_key: Option<PathBuf>,
    /// A clock in place of the store's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            host: None,
            port: None,
            socket: None,
            user: None,
            password: None,
            database: None,
            namespace: "default".to_owned(),
            pool: 8,
            create_tables: true,
            statement_cache: 100,
            table: DEFAULT_TABLE.to_owned(),
            call_timeout_ms: CALL_TIMEOUT_MS,
            ssl_mode: None,
            ssl_ca: None,
            ssl_cert: None,
            ssl_key: None,
            clock: None,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServerOptions");
        shown.field("place", &self.place()).field("namespace", &self.namespace);
        shown.field("pool", &self.pool).field("table", &self.table);
        shown.field("ssl_mode", &self.ssl_mode).finish_non_exhaustive()
    }
}

/// The options that both servers have, as they are written in a URL.
pub(in crate::backends) const SERVER_OPTIONS: [&str; 16] = [
    "host",
    "port",
    "socket",
    "user",
    "password",
    "database",
    "namespace",
    "pool",
    "createTables",
    "statementCache",
    "table",
    "callTimeoutMs",
    "sslMode",
    "sslCa",
    "sslCert",
    "sslKey",
];

/// What the databases' own clients call the same.
const ALIASES: [(&str, &str); 5] = [
    ("sslrootcert", "sslca"),
    ("username", "user"),
    ("dbname", "database"),
    ("statementcachecapacity", "statementcache"),
    ("statementcachesize", "statementcache"),
];

/// The name without case, `_` and `-`, and in our words.
pub(in crate::backends) fn plain_name(name: &str) -> String {
    let plain = name.to_ascii_lowercase().replace(['_', '-'], "");
    let ours = ALIASES.iter().find(|(alias, _)| *alias == plain);
    ours.map_or(plain, |(_, ours)| (*ours).to_owned())
}

impl ServerOptions {
    /// Sets an option by its name, in any style (`createTables`, `create_tables`,
    /// `create-tables`). `Ok(false)`: there is none of this name here.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that cannot be read.
    pub(in crate::backends) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let text = || Some(value.to_owned());
        match plain_name(name).as_str() {
            "host" => self.host = text(),
            "port" => self.port = Some(number(name, value)?),
            "socket" => self.socket = Some(PathBuf::from(value)),
            "user" => self.user = text(),
            "password" => self.password = text(),
            "database" => self.database = text(),
            "namespace" => value.clone_into(&mut self.namespace),
            "pool" => self.pool = number(name, value)?,
            "createtables" => self.create_tables = truth(name, value)?,
            "statementcache" => self.statement_cache = number(name, value)?,
            "table" => value.clone_into(&mut self.table),
            "calltimeoutms" => self.call_timeout_ms = number(name, value)?,
            "sslmode" => self.ssl_mode = Some(SslMode::parse(value)?),
            "sslca" => self.ssl_ca = Some(PathBuf::from(value)),
            "sslcert" => self.ssl_cert = Some(PathBuf::from(value)),
            "sslkey" => self.ssl_key = Some(PathBuf::from(value)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses values that are not allowed. Touches no socket.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub(in crate::backends) fn check(&self) -> Result<()> {
        if self.host.as_deref().is_some_and(|host| host.is_empty() || host.contains(',')) {
            return Err(Error::option(format!(
                "the host is {:?}; wanted is one name or address. Where several servers stand by \
                 for each other, name the address that always leads to the one that writes",
                self.host.as_deref().unwrap_or_default()
            )));
        }
        given::namespace(&self.namespace)?;
        in_range("pool", i64::try_from(self.pool).unwrap_or(i64::MAX), 1, 1_000)?;
        let cache = i64::try_from(self.statement_cache).unwrap_or(i64::MAX);
        in_range("statementCache", cache, 0, 10_000)?;
        in_range("callTimeoutMs", self.call_timeout_ms, 1, 600_000)?;
        if self.ssl_cert.is_some() != self.ssl_key.is_some() {
            return Err(Error::option(
                "of sslCert and sslKey only one is given; a client certificate needs both",
            ));
        }
        check_identifier("table", &self.table, 48)
    }

    /// What the engine needs to know, for tables in this schema.
    pub(in crate::backends) fn engine(&self, schema: Option<&str>) -> EngineOptions {
        let schema = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
        EngineOptions {
            table: format!("{schema}{}", self.table),
            create_tables: self.create_tables,
            call_timeout_ms: self.call_timeout_ms,
            clock: self.clock.clone(),
        }
    }

    /// Where the server is, for messages: never who asks.
    pub(in crate::backends) fn place(&self) -> String {
        let database = self.database.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
        match (&self.socket, &self.host, self.port) {
            (Some(socket), ..) => format!("{}{database}", socket.display()),
            (None, Some(host), Some(port)) => format!("{host}:{port}{database}"),
            (None, Some(host), None) => format!("{host}{database}"),
            (None, None, _) => format!("the default server{database}"),
        }
    }

    /// A message of the server without the name of the user.
    pub(in crate::backends) fn without_user(&self, message: &str) -> String {
        let Some(user) = self.user.as_deref().filter(|user| !user.is_empty()) else {
            return message.to_owned();
        };
        let hidden = message.replace(&format!("\"{user}\""), "\"***\"");
        hidden.replace(&format!("'{user}'"), "'***'")
    }
}

/// The parts of `scheme://user:password@host:port/database?name=value&…`, decoded. The query comes
/// back as pairs. No error shows any of it but the names of options.
pub(in crate::backends) fn read_url(
    url: &str,
    schemes: &[&str],
) -> Result<(ServerOptions, Vec<(String, String)>)> {
    let shape = || {
        Error::option(format!(
            "the URL cannot be read; wanted is {}://user:password@host:port/database?name=value, \
             with %-escapes for special characters in user and password",
            schemes[0]
        ))
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(shape)?;
    if !schemes.contains(&scheme) {
        return Err(shape());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    let decoded = |text: &str| -> Result<Option<String>> {
        let text = percent_decode_str(text).decode_utf8().map_err(|_| shape())?;
        Ok((!text.is_empty()).then(|| text.into_owned()))
    };
    let mut options = ServerOptions::default();
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    (options.user, options.password) = (decoded(user)?, decoded(password)?);
    options.database = decoded(database)?;
    let (host, port) = match server.strip_prefix('[') {
        // An address of IPv6 stands in brackets.
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(shape)?;
            (host, port.strip_prefix(':'))
        }
        None => match server.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    let host = decoded(host)?;
    match host {
        Some(socket) if socket.starts_with('/') => options.socket = Some(PathBuf::from(socket)),
        host => options.host = host,
    }
    if let Some(port) = port.filter(|port| !port.is_empty()) {
        options.port = Some(port.parse().map_err(|_| shape())?);
    }
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((name.to_owned(), decoded(value)?.unwrap_or_default()));
    }
    Ok((options, pairs))
}

/// The refusal of an option that nobody knows.
pub(in crate::backends) fn unknown_option(store: &str, name: &str, more: &[&str]) -> Error {
    let known: Vec<&str> = SERVER_OPTIONS.iter().chain(more).copied().collect();
    let near = nearest(name, &known);
    Error::option(format!(
        "{store} has no option {name:?}{near}{} Known are {}",
        if near.is_empty() { "." } else { "" },
        known.join(", ")
    ))
}

/// Refuses what is no plain identifier.
pub(in crate::backends) fn check_identifier(name: &str, value: &str, most: usize) -> Result<()> {
    if value.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Error::option(format!("the {name} is {value:?}; a digit must not be first")));
    }
    given::word(name, value, most, "a-z, 0-9 and _", |c| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
    })
}

/// What is said of a server whose clock is not ours: it was read between `sent` and `answered` (ms).
/// The server's clock decides, so this only makes claims early or late.
pub(in crate::backends) fn skew_warning(
    store: &str,
    now_ms: i64,
    sent: i64,
    answered: i64,
) -> Option<String> {
    const TOLERATED_MS: i64 = 2_000;
    let (behind, ahead) = (sent - now_ms, now_ms - answered);
    let (off, side) = if behind >= ahead { (behind, "behind") } else { (ahead, "ahead of") };
    (off >= TOLERATED_MS).then(|| {
        format!(
            "the clock of {store} is {off} ms {side} this machine's; leases are kept by the \
             server's clock. Synchronise both (NTP)"
        )
    })
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
