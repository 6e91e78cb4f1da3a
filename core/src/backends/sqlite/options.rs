//! How a SQLite store is set up, in code or in a URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backends::given::{self, decoded, in_range, number, truth};
use crate::backends::sql::{CALL_TIMEOUT_MS, DEFAULT_TABLE};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// When SQLite waits for the disk (`PRAGMA synchronous`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// At every commit: what was acknowledged survives a loss of power.
    #[default]
    Full,
    /// At every commit, and once more for the directory.
    Extra,
    /// Now and then: a loss of power may take back the last claims, a killed process does not.
    Normal,
}

impl Synchronous {
    const ALL: [(&'static str, Synchronous); 3] = [
        ("full", Synchronous::Full),
        ("extra", Synchronous::Extra),
        ("normal", Synchronous::Normal),
    ];

    fn parse(text: &str) -> Option<Synchronous> {
        let text = text.to_ascii_lowercase();
        Synchronous::ALL.into_iter().find(|(word, _)| *word == text).map(|(_, value)| value)
    }
}

/// How a SQLite store is set up.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The file. Its directory must exist.
    pub path: PathBuf,
    /// Keeps applications and environments in one file apart: 1 to 64 of `[a-z0-9_-]`.
    pub namespace: String,
    /// How many connections are used at most, beside one that is kept for heartbeats; at least 1.
    pub pool: usize,
    /// Whether missing tables are created.
    pub create_tables: bool,
    /// When SQLite waits for the disk.
    pub synchronous: Synchronous,
    /// How long one attempt waits for another process that writes (ms). A call attempts more than
    /// once, up to its deadline.
    pub busy_timeout_ms: i64,
    /// The name of the runs table; the others are named after it.
    pub table: String,
    /// How long a call is tried again (ms); a call with a lease at most a sixth of it.
    pub call_timeout_ms: i64,
    /// Allows a file on a network file system, whose locks cannot be relied on.
    pub allow_network: bool,
    /// A clock in place of the store's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

/// The options that a URL may have.
const OPTIONS: [&str; 8] = [
    "namespace",
    "pool",
    "createTables",
    "synchronous",
    "busyTimeoutMs",
    "table",
    "callTimeoutMs",
    "allowNetwork",
];

impl SqliteOptions {
    /// The defaults for a file.
    pub fn new(path: impl AsRef<Path>) -> SqliteOptions {
        SqliteOptions {
            path: path.as_ref().to_owned(),
            namespace: "default".to_owned(),
            pool: 4,
            create_tables: true,
            synchronous: Synchronous::Full,
            busy_timeout_ms: 2_000,
            table: DEFAULT_TABLE.to_owned(),
            call_timeout_ms: CALL_TIMEOUT_MS,
            allow_network: false,
            clock: None,
        }
    }

    /// Reads `sqlite:path.db` and `sqlite:///abs/path.db`, with options in the query.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<SqliteOptions> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            Error::option("a SQLite URL is sqlite:path.db or sqlite:///absolute/path.db")
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = decoded(path, "the path of the SQLite URL")?;
        let mut options = SqliteOptions::new(path);
        given::set_all(query, "SQLite", |name, value| options.set(name, value))?;
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "namespace" => value.clone_into(&mut self.namespace),
            "pool" => self.pool = number(name, value)?,
            "createTables" => self.create_tables = truth(name, value)?,
            "synchronous" => {
                self.synchronous = Synchronous::parse(value).ok_or_else(|| {
                    let words = Synchronous::ALL.map(|(word, _)| word).join(", ");
                    Error::option(format!(
                        "synchronous is {value:?}; allowed are {words}. With off, a loss of power \
                         would damage the file"
                    ))
                })?;
            }
            "busyTimeoutMs" => self.busy_timeout_ms = number(name, value)?,
            "table" => value.clone_into(&mut self.table),
            "callTimeoutMs" => self.call_timeout_ms = number(name, value)?,
            "allowNetwork" => self.allow_network = truth(name, value)?,
            unknown => return Err(unknown_option(unknown)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no file.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        let path = self.path.to_string_lossy();
        if path.is_empty() {
            return Err(Error::option("the SQLite path is empty; write sqlite:anarchon.db"));
        }
        if path == ":memory:" || path.starts_with("file:") {
            return Err(Error::option(format!(
                "the SQLite path is {path:?}; it must be the path of a file, which the processes \
                 share. For a store inside one process use memory:"
            )));
        }
        given::namespace(&self.namespace)?;
        in_range("pool", i64::try_from(self.pool).unwrap_or(i64::MAX), 1, 1_000)?;
        in_range("busyTimeoutMs", self.busy_timeout_ms, 0, 600_000)?;
        in_range("callTimeoutMs", self.call_timeout_ms, 1, 600_000)?;
        check_table(&self.table)
    }
}

pub(crate) fn check_table(table: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = table.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if (1..=48).contains(&table.len()) && starts_well && table.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::option(format!(
        "the table is {table:?}; allowed are 1 to 48 of a-z, 0-9 and _, a digit not first"
    )))
}

fn unknown_option(name: &str) -> Error {
    let flat = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
    let distance = |known: &&&str| strsim::damerau_levenshtein(&flat(known), &flat(name));
    let nearest = OPTIONS.iter().min_by_key(distance).copied().unwrap_or_default();
    Error::option(format!(
        "the SQLite URL has an unknown option {name:?}; did you mean {nearest}? Allowed are {}",
        OPTIONS.join(", ")
    ))
}
