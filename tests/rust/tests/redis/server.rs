//! What the tests share: servers, stores with keys of their own, claims.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon_tests::private::free_port;
use redis::aio::MultiplexedConnection;

/// A number that no other test of this process has.
pub fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Counts and prints a test that cannot run here; a failure where `CI` is true.
fn skip(why: &str) {
    static SKIPPED: AtomicU32 = AtomicU32::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("SKIPPED ({count} so far): {why}");
}

/// A server, and a prefix on it that belongs to one test.
pub struct Ground {
    pub options: RedisOptions,
}

impl Ground {
    /// The server that the environment names.
    pub async fn shared() -> Option<Ground> {
        let url = std::env::var("ANARCHON_TEST_REDIS_URL")
            .unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
        let options = RedisOptions::from_url(&url).expect("ANARCHON_TEST_REDIS_URL is a Redis URL");
        let ground = Ground { options: of_its_own(options) };
        if ground.try_connect().await.is_err() {
            skip(&format!("no Redis at {}", ground.options.address()));
            return None;
        }
        Some(ground)
    }

    /// An open store.
    pub async fn open(&self) -> RedisBackend {
        opened(self.options.clone()).await
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        connect(&self.options).await
    }

    /// A connection of the library that the store uses as well.
    pub async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.expect("the server is there")
    }

    /// Sends a command to the server.
    pub async fn tell<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connect().await).await.expect("the server answers")
    }

    /// Removes what the test has written.
    pub async fn clean(self) {
        let pattern = format!("{}:*", self.options.prefix);
        let keys: Vec<String> = self.tell(&["KEYS", &pattern]).await;
        let mut connection = self.connect().await;
        for some in keys.chunks(500) {
            let gone = redis::cmd("DEL").arg(some).query_async::<i64>(&mut connection).await;
            gone.expect("the keys are removed");
        }
    }
}

fn of_its_own(mut options: RedisOptions) -> RedisOptions {
    options.prefix = format!("anarchon-test-{}-{}", std::process::id(), next_number());
    options
}

pub async fn connect(options: &RedisOptions) -> redis::RedisResult<MultiplexedConnection> {
    let password = options.password.as_ref().map(|word| format!(":{word}@")).unwrap_or_default();
    let url = format!("redis://{password}{}/{}", options.address(), options.db);
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}

pub async fn opened(options: RedisOptions) -> RedisBackend {
    let backend = RedisBackend::with_options(options).expect("the options are allowed");
    backend.init().await.expect("the store opens");
    backend
}

/// A server of one test: it can be stopped, paused, filled and flushed.
pub struct Private {
    pub port: u16,
    directory: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

impl Private {
    /// Starts a server with these arguments beside the usual ones.
    pub async fn start(arguments: &[&str]) -> Option<Private> {
        Private::start_on(free_port(), arguments).await
    }

    pub async fn start_on(port: u16, arguments: &[&str]) -> Option<Private> {
        let name = format!("anarchon-redis-{}-{}", std::process::id(), next_number());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let Ok(child) = launch(port, &directory, &arguments) else {
            skip("no redis-server on the path");
            return None;
        };
        let server = Private { port, directory, arguments, child };
        server.ready().await;
        Some(server)
    }

    pub fn options(&self) -> RedisOptions {
        RedisOptions { port: self.port, ..RedisOptions::new("127.0.0.1") }
    }

    /// Waits until the server answers.
    async fn ready(&self) {
        for _ in 0..400 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                let ping = async {
                    let mut connection = connect(&self.options()).await?;
                    redis::cmd("PING").query_async::<String>(&mut connection).await
                };
                match ping.await {
                    Err(error) if error.is_io_error() || error.code() == Some("LOADING") => {}
                    // An answer is an answer, also one that asks for a password.
                    _ => return,
                }
            }
            sleep_for(&SystemClock, 25).await;
        }
        panic!("redis-server on port {} does not answer", self.port);
    }

    /// Kills the server as a crash does, and starts it again on what it had written.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = launch(self.port, &self.directory, &self.arguments).expect("it was there");
        self.ready().await;
    }

    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }

    /// Stops it from answering, with its connections open.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Sends a command to it.
    pub async fn tell<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = connect(&self.options()).await.expect("the server is there");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.expect("the server answers")
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.kill();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

fn launch(port: u16, directory: &PathBuf, arguments: &[String]) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--logfile", "redis.log", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
