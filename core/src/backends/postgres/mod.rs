//! PostgreSQL 12 and later, also behind a pooler.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options.rs` | how it is set up, in code or in a URL |
//! | `dialect.rs` | what differs from other databases |
//! | `connection.rs` | one connection: statements in, rows out |
//! | `client.rs` | all connections of a process |
//! | `apply.rs` | guarded changes as one statement |
//! | `literals.rs` | values written into a text |
//! | `errors.rs` | what the server says, sorted |
//! | `check.rs` | what a server must be like |
//! | `wakes.rs` | `LISTEN` and `NOTIFY`, which shorten a wait |

mod apply;
mod check;
mod client;
mod connection;
mod dialect;
mod errors;
mod literals;
mod options;
mod wakes;

use std::sync::{Arc, PoisonError, RwLock, Weak};

use async_trait::async_trait;

use self::client::PostgresClient;
use self::connection::Connector;
pub use self::dialect::PostgresDialect;
pub use self::options::PostgresOptions;
use self::wakes::Wakes;
use super::sql::{Access, Connected, SqlClient, SqlDialect, SqlEngine, SqlStore, Tables};
use crate::backend::contract::{Wake, WakeListener};
use crate::error::Result;

/// A store in a PostgreSQL database, with leases.
pub type PostgresBackend = SqlEngine<PostgresStore>;

/// How a PostgreSQL database is reached.
pub struct PostgresStore {
    options: PostgresOptions,
    tables: Tables,
    wakes: Arc<Wakes>,
    /// The client in use, for notifications.
    client: RwLock<Weak<PostgresClient>>,
}

impl PostgresBackend {
    /// A store in the database that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::postgres::{PostgresBackend, PostgresOptions};
    ///
    /// let mut options = PostgresOptions::default();
    /// options.server.host = Some("db.internal".to_owned());
    /// options.server.namespace = "staging".to_owned();
    /// options.schema = Some("jobs".to_owned());
    /// let backend = PostgresBackend::with_options(options)?;
    /// assert!(backend.ddl()[0].starts_with("CREATE TABLE IF NOT EXISTS jobs.anarchon_jobs"));
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: PostgresOptions) -> Result<PostgresBackend> {
        options.check()?;
        let engine = options.server.engine(options.schema.as_deref());
        let namespace = options.server.namespace.clone();
        let tables = Tables::beside(&engine.table);
        let wakes = Wakes::new(&engine.table, options.driver());
        let store = PostgresStore { options, tables, wakes, client: RwLock::default() };
        Ok(SqlEngine::new(store, &namespace, engine))
    }

    /// A store in the database that a URL names, `postgres://user:password@host:port/database`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<PostgresBackend> {
        PostgresBackend::with_options(PostgresOptions::from_url(url)?)
    }
}

#[async_trait]
impl SqlStore for PostgresStore {
    fn name(&self) -> String {
        "postgres".to_owned()
    }

    fn dialect(&self) -> Arc<dyn SqlDialect> {
        Arc::new(PostgresDialect)
    }

    async fn connect(&self, _access: Access) -> Result<Connected> {
        let connector = Connector::new(&self.options);
        let pool = self.options.server.pool;
        let client =
            Arc::new(PostgresClient::new(connector, pool, self.tables.clone(), self.wakes.clone()));
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&client);
        Ok(Connected { client, owned: true })
    }

    async fn check_server(&self, client: &Arc<dyn SqlClient>) -> Result<()> {
        check::check(client, &self.tables, &PostgresDialect.now_ms()).await
    }

    fn watch(&self, namespace: &str, listener: &Arc<WakeListener>) {
        if self.options.notify {
            self.wakes.watch(namespace, listener);
        }
    }

    fn wake(&self, namespace: &str, jobs: Vec<String>, wake: Wake) {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(client) = client.filter(|_| self.options.notify) {
            self.wakes.tell(client, namespace, jobs, wake);
        }
    }
}
