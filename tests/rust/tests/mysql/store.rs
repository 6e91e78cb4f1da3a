//! What the tests share: databases of their own on the server, and stores in them.

use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::mysql::{MySqlBackend, MySqlOptions};
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{MYSQL, host_and_port, with_port};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

/// A database of the server that is dropped when the test is over.
pub struct Database {
    pub url: String,
    pub name: String,
}

impl Database {
    /// A new database; `None` if there is no server.
    pub async fn new() -> Option<Database> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = MYSQL.url()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anarchon_test_{}_{number}", std::process::id());
        let database = Database { url, name };
        let mut conn = database.connection().await;
        // Its own character set is one that takes names for one another.
        let create = format!("CREATE DATABASE {} CHARACTER SET latin1", database.name);
        for statement in [format!("DROP DATABASE IF EXISTS {}", database.name), create] {
            execute(&mut conn, &statement).await.expect("the test may");
        }
        Some(database)
    }

    /// Options for this database.
    pub fn options(&self) -> MySqlOptions {
        self.options_at(&self.url)
    }

    fn options_at(&self, url: &str) -> MySqlOptions {
        let mut options = MySqlOptions::from_url(url).expect("the test's URL is allowed");
        options.server.database = Some(self.name.clone());
        options
    }

    /// An open store in it.
    pub async fn open(&self) -> MySqlBackend {
        opened(self.options()).await
    }

    /// A proxy in front of the server.
    pub async fn proxy(&self) -> Proxy {
        Proxy::before(host_and_port(&self.url)).await
    }

    /// Options through a proxy.
    pub fn options_through(&self, proxy: &Proxy) -> MySqlOptions {
        self.options_at(&with_port(&self.url, proxy.port()))
    }

    /// A connection of the test's own.
    pub async fn connection(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url).await.expect("the server lets the test in")
    }

    /// Runs a statement in this database.
    pub async fn execute(&self, sql: &str) {
        let mut conn = self.connection().await;
        execute(&mut conn, &format!("USE {}", self.name)).await.expect("it is there");
        execute(&mut conn, sql).await.expect("the statement is right");
    }
}

/// Runs a statement.
pub async fn execute(conn: &mut MySqlConnection, sql: &str) -> sqlx::Result<u64> {
    let done = conn.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await?;
    Ok(done.rows_affected())
}

impl Drop for Database {
    fn drop(&mut self) {
        // In a thread of its own: the test's runtime may be of one thread, and is ending.
        let (url, name) = (self.url.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let Ok(mut conn) = MySqlConnection::connect(&url).await else { return };
                let _gone = execute(&mut conn, &format!("DROP DATABASE {name}")).await;
            });
        });
        let _ended = dropping.join();
    }
}

pub async fn opened(options: MySqlOptions) -> MySqlBackend {
    let backend = MySqlBackend::with_options(options).expect("the options are allowed");
    backend.init().await.expect("the store opens");
    backend
}
