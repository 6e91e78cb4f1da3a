//! How a MySQL or MariaDB store is set up, in code or in a URL.

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::backends::given::truth;
use crate::backends::sql::driver::for_driver;
use crate::backends::sql::server::{plain_name, read_url, unknown_option};
use crate::backends::sql::{ServerOptions, SslMode};
use crate::error::{Error, Result};

/// How a MySQL or MariaDB store is set up.
#[derive(Clone, Debug, Default)]
pub struct MySqlOptions {
    /// How the server is reached, and what all SQL servers have in common. Without a host it is
    /// `localhost`, without a user `root`; the database must be named.
    pub server: ServerOptions,
    /// Takes a server that does not wait for its disk (`innodb_flush_log_at_trx_commit = 0`), which
    /// forgets up to a second of claims when it is killed.
    pub allow_lazy_flush: bool,
}

/// The options of this store alone, as they are written in a URL.
const OPTIONS: [&str; 1] = ["allowLazyFlush"];

impl MySqlOptions {
    /// Reads `mysql://user:password@host:port/database` and the same with `mariadb:`, with options
    /// in the query.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<MySqlOptions> {
        let (server, pairs) = read_url(url, &["mysql", "mariadb"])?;
        let mut options = MySqlOptions { server, ..MySqlOptions::default() };
        for (name, value) in pairs {
            options.set(&name, &value)?;
        }
        options.check()?;
        Ok(options)
    }

    /// Sets an option by its name, in any style: `createTables`, `create_tables`, `create-tables`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an unknown option or a value that cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match plain_name(name).as_str() {
            "allowlazyflush" => self.allow_lazy_flush = truth(name, value)?,
            _ if self.server.set(name, value)? => {}
            _ => return Err(unknown_option("MySQL", name, &OPTIONS)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no socket.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        if self.server.database.is_none() {
            return Err(Error::option(
                "no database is named; wanted is mysql://user:password@host:port/database",
            ));
        }
        self.server.check()
    }

    /// For the driver. Of the session it sets nothing: one statement of ours does.
    pub(super) fn driver(&self) -> MySqlConnectOptions {
        let options = MySqlConnectOptions::new()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false)
            .charset("utf8mb4")
            .statement_cache_capacity(self.server.statement_cache)
            .disable_statement_logging();
        for_driver!(options, &self.server, ssl_mode, ssl_ca)
    }
}

fn ssl_mode(mode: SslMode) -> MySqlSslMode {
    match mode {
        SslMode::Disable => MySqlSslMode::Disabled,
        SslMode::Prefer => MySqlSslMode::Preferred,
        SslMode::Require => MySqlSslMode::Required,
        SslMode::VerifyCa => MySqlSslMode::VerifyCa,
        SslMode::VerifyFull => MySqlSslMode::VerifyIdentity,
    }
}
