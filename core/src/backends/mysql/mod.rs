//! MySQL 8.0 and MariaDB 10.5, and later.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options.rs` | how it is set up, in code or in a URL |
//! | `dialect.rs` | what differs from other databases |
//! | `connection.rs` | one connection: statements in, rows and counts out |
//! | `client.rs` | all connections of a process |
//! | `script.rs` | guarded changes as one text |
//! | `literals.rs` | values written into a text |
//! | `errors.rs` | what the server says, sorted |
//! | `check.rs` | what a server must be like |

mod check;
mod client;
mod connection;
mod dialect;
mod errors;
mod literals;
mod options;
mod script;

use std::sync::Arc;

use async_trait::async_trait;

use self::client::MySqlClient;
use self::connection::Connector;
pub use self::dialect::MySqlDialect;
pub use self::options::MySqlOptions;
use super::sql::{Access, Connected, SqlClient, SqlDialect, SqlEngine, SqlStore, Tables};
use crate::error::Result;

/// A store in a MySQL or MariaDB database, with leases.
pub type MySqlBackend = SqlEngine<MySqlStore>;

/// How a MySQL or MariaDB database is reached.
pub struct MySqlStore {
    options: MySqlOptions,
    tables: Tables,
}

impl MySqlBackend {
    /// A store in the database that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
    ///
    /// let mut options = MySqlOptions::default();
    /// options.server.host = Some("db.internal".to_owned());
    /// options.server.database = Some("jobs".to_owned());
    /// options.server.namespace = "staging".to_owned();
    /// let backend = MySqlBackend::with_options(options)?;
    /// assert!(backend.ddl()[0].contains("job VARBINARY(255) NOT NULL"));
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: MySqlOptions) -> Result<MySqlBackend> {
        options.check()?;
        let engine = options.server.engine(None);
        let namespace = options.server.namespace.clone();
        let tables = Tables::beside(&engine.table);
        Ok(SqlEngine::new(MySqlStore { options, tables }, &namespace, engine))
    }

    /// A store in the database that a URL names, `mysql://user:password@host:port/database`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<MySqlBackend> {
        MySqlBackend::with_options(MySqlOptions::from_url(url)?)
    }
}

#[async_trait]
impl SqlStore for MySqlStore {
    fn name(&self) -> String {
        "mysql".to_owned()
    }

    fn dialect(&self) -> Arc<dyn SqlDialect> {
        Arc::new(MySqlDialect)
    }

    async fn connect(&self, _access: Access) -> Result<Connected> {
        let client = MySqlClient::new(Connector::new(&self.options), self.options.server.pool);
        Ok(Connected { client: Arc::new(client), owned: true })
    }

    async fn check_server(&self, client: &Arc<dyn SqlClient>) -> Result<()> {
        let now = MySqlDialect.now_ms();
        check::check(client, &self.tables, &now, self.options.allow_lazy_flush).await
    }
}
