//! How a PostgreSQL store is set up, in code or in a URL.

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::backends::given::truth;
use crate::backends::sql::driver::for_driver;
use crate::backends::sql::server::{check_identifier, plain_name, read_url, unknown_option};
use crate::backends::sql::{ServerOptions, SslMode};
use crate::error::Result;

/// How a PostgreSQL store is set up.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// How the server is reached, and what all SQL servers have in common. What is left out is
    /// taken from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE` and the password file, as
    /// PostgreSQL's own clients do.
    pub server: ServerOptions,
    /// The schema of the tables; `None`: the first of the user's search path. It must exist.
    pub schema: Option<String>,
    /// Whether other replicas are told with `NOTIFY` that a run was given back or has ended, and
    /// `LISTEN` is used to hear it. It only shortens a wait.
    pub notify: bool,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            server: ServerOptions::default(),
            schema: None,
            notify: true,
            application_name: "anarchon".to_owned(),
        }
    }
}

/// The options of this store alone, as they are written in a URL.
const OPTIONS: [&str; 3] = ["schema", "notify", "applicationName"];

impl PostgresOptions {
    /// Reads `postgres://user:password@host:port/database`, with options in the query.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<PostgresOptions> {
        let (server, pairs) = read_url(url, &["postgres", "postgresql"])?;
        let mut options = PostgresOptions { server, ..PostgresOptions::default() };
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
            "schema" => self.schema = Some(value.to_owned()),
            "notify" => self.notify = truth(name, value)?,
            "applicationname" => value.clone_into(&mut self.application_name),
            _ if self.server.set(name, value)? => {}
            _ => return Err(unknown_option("PostgreSQL", name, &OPTIONS)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no socket.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        self.server.check()?;
        self.schema.as_deref().map_or(Ok(()), |schema| check_identifier("schema", schema, 63))
    }

    /// For the driver.
    pub(super) fn driver(&self) -> PgConnectOptions {
        // A pooler refuses parameters of the session that it does not know.
        let options = PgConnectOptions::new()
            .extra_float_digits(None)
            .application_name(&self.application_name)
            .statement_cache_capacity(self.server.statement_cache)
            .disable_statement_logging();
        for_driver!(options, &self.server, ssl_mode, ssl_root_cert)
    }
}

fn ssl_mode(mode: SslMode) -> PgSslMode {
    match mode {
        SslMode::Disable => PgSslMode::Disable,
        SslMode::Prefer => PgSslMode::Prefer,
        SslMode::Require => PgSslMode::Require,
        SslMode::VerifyCa => PgSslMode::VerifyCa,
        SslMode::VerifyFull => PgSslMode::VerifyFull,
    }
}
