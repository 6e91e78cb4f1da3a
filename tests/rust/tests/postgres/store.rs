//! What the tests share: tables of their own in the server's database, and stores on them.

use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::postgres::{PostgresBackend, PostgresOptions};
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{POSTGRES, host_and_port, with_port};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

/// A schema of the server that is dropped when the test is over.
pub struct Schema {
    pub url: String,
    pub name: String,
}

impl Schema {
    /// A new schema; `None` if there is no server.
    pub async fn new() -> Option<Schema> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = POSTGRES.url()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anarchon_test_{}_{number}", std::process::id());
        let schema = Schema { url, name };
        schema.execute("DROP SCHEMA IF EXISTS MINE CASCADE").await;
        schema.execute("CREATE SCHEMA MINE").await;
        Some(schema)
    }

    /// Options for tables in it.
    pub fn options(&self) -> PostgresOptions {
        self.options_at(&self.url)
    }

    /// The same through another address.
    pub fn options_at(&self, url: &str) -> PostgresOptions {
        let mut options = PostgresOptions::from_url(url).expect("the test's URL is allowed");
        options.schema = Some(self.name.clone());
        options
    }

    /// An open store in it.
    pub async fn open(&self) -> PostgresBackend {
        opened(self.options()).await
    }

    /// A proxy in front of the server.
    pub async fn proxy(&self) -> Proxy {
        Proxy::before(host_and_port(&self.url)).await
    }

    /// Options through a proxy.
    pub fn options_through(&self, proxy: &Proxy) -> PostgresOptions {
        self.options_at(&with_port(&self.url, proxy.port()))
    }

    /// A connection of the test's own.
    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the server lets the test in")
    }

    /// Runs a statement with the word MINE replaced by the name of the schema.
    pub async fn execute(&self, sql: &str) {
        let mut conn = self.connection().await;
        execute(&mut conn, &self.text(sql)).await.expect("the statement is right");
    }

    /// The statement for this schema.
    pub fn text(&self, sql: &str) -> String {
        sql.replace("MINE", &self.name)
    }
}

/// Runs a statement.
pub async fn execute(conn: &mut PgConnection, sql: &str) -> sqlx::Result<u64> {
    let done = conn.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await?;
    Ok(done.rows_affected())
}

impl Drop for Schema {
    fn drop(&mut self) {
        // In a thread of its own: the test's runtime may be of one thread, and is ending.
        let (url, name) = (self.url.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let Ok(mut conn) = PgConnection::connect(&url).await else { return };
                let _gone = execute(&mut conn, &format!("DROP SCHEMA {name} CASCADE")).await;
            });
        });
        let _ended = dropping.join();
    }
}

pub async fn opened(options: PostgresOptions) -> PostgresBackend {
    let backend = PostgresBackend::with_options(options).expect("the options are allowed");
    backend.init().await.expect("the store opens");
    backend
}
