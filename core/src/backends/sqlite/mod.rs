//! SQLite: many processes on one machine, one file.

mod client;
mod connection;
mod dialect;
mod options;
mod place;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use self::client::SqliteClient;
use self::connection::Connector;
pub use self::dialect::SqliteDialect;
pub(crate) use self::options::check_table;
pub use self::options::{SqliteOptions, Synchronous};
use super::sql::{Access, Connected, EngineOptions, SqlDialect, SqlEngine, SqlStore};
use crate::error::Result;

/// A store in a SQLite file, with leases.
pub type SqliteBackend = SqlEngine<SqliteStore>;

/// How a SQLite file is reached.
pub struct SqliteStore {
    options: SqliteOptions,
    sent: Arc<AtomicU64>,
}

impl SqliteBackend {
    /// A store in the file that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::sqlite::{SqliteBackend, SqliteOptions};
    ///
    /// let mut options = SqliteOptions::new("jobs.db");
    /// options.namespace = "staging".to_owned();
    /// let backend = SqliteBackend::with_options(options)?;
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: SqliteOptions) -> Result<SqliteBackend> {
        options.check()?;
        let engine = EngineOptions {
            table: options.table.clone(),
            create_tables: options.create_tables,
            call_timeout_ms: options.call_timeout_ms,
            clock: options.clock.clone(),
        };
        let namespace = options.namespace.clone();
        let store = SqliteStore { options, sent: Arc::default() };
        Ok(SqlEngine::new(store, &namespace, engine))
    }

    /// A store in the file that a URL names: `sqlite:path.db`, `sqlite:///absolute/path.db`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<SqliteBackend> {
        SqliteBackend::with_options(SqliteOptions::from_url(url)?)
    }

    /// How many statements were sent to the file so far, by all connections.
    pub fn statements(&self) -> u64 {
        self.store().sent.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SqlStore for SqliteStore {
    fn name(&self) -> String {
        "sqlite".to_owned()
    }

    fn dialect(&self) -> Arc<dyn SqlDialect> {
        Arc::new(SqliteDialect)
    }

    async fn connect(&self, access: Access) -> Result<Connected> {
        let path = place::check(&self.options, access)?;
        let connector = Connector::new(&self.options, &path, access, self.sent.clone());
        let client = SqliteClient::new(connector, self.options.pool, self.options.busy_timeout_ms);
        client.open(access).await?;
        Ok(Connected { client: Arc::new(client), owned: true })
    }
}
