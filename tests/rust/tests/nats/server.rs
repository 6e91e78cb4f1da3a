//! What the tests share: servers, and stores with a stream of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::nats::{NatsBackend, NatsOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon_tests::private::free_port;
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{NATS, host_and_port, nats_server};
use serde_json::{Value, json};

use crate::wire;

/// A number that no other test of this process has.
pub fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Prints that a test cannot run here; a failure where `CI` is true.
pub fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    println!("SKIPPED: {why}");
}

/// A server, and a stream on it that belongs to one test.
pub struct Ground {
    pub options: NatsOptions,
    /// Kept while the test goes on.
    private: Option<Private>,
}

impl Ground {
    /// The server that the environment names.
    pub fn shared() -> Option<Ground> {
        let options = NatsOptions::from_url(&NATS.url()?).expect("ANARCHON_TEST_NATS_URL is one");
        Some(Ground { options: of_its_own(options), private: None })
    }

    /// A current server of its own.
    pub async fn current() -> Option<Ground> {
        let private = Private::start(&[]).await?;
        Some(Ground { options: of_its_own(private.options()), private: Some(private) })
    }

    /// All of them that there are.
    pub async fn all() -> Vec<Ground> {
        let grounds = [Ground::shared(), Ground::current().await];
        let grounds: Vec<Ground> = grounds.into_iter().flatten().collect();
        for ground in &grounds {
            println!("on the server at {}", ground.options.address());
        }
        grounds
    }

    /// An open store.
    pub async fn open(&self) -> NatsBackend {
        opened(self.options.clone()).await
    }

    /// Several stores, as different processes have them.
    pub async fn open_all(&self, count: usize) -> Vec<Arc<dyn Backend>> {
        let mut stores: Vec<Arc<dyn Backend>> = Vec::with_capacity(count);
        for _ in 0..count {
            stores.push(Arc::new(self.open().await));
        }
        stores
    }

    pub fn server(&self) -> &str {
        &self.options.servers[0]
    }

    /// A proxy in front of the server, and the options of a store behind it.
    pub async fn proxy(&self) -> (Proxy, NatsOptions) {
        let proxy = Proxy::before(host_and_port(&format!("nats://{}", self.server()))).await;
        let servers = vec![format!("127.0.0.1:{}", proxy.port())];
        (proxy, NatsOptions { servers, ..self.options.clone() })
    }

    /// Asks JetStream about the stream of the test.
    pub async fn stream(&self, operation: &str, body: Value) -> Value {
        let subject = format!("$JS.API.STREAM.{operation}.{}", self.options.prefix);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wire::ask(self.server(), &subject, &body).await.expect("JetStream answers")
    }

    /// How many messages a filter finds.
    pub async fn count(&self, filter: &str) -> usize {
        let filter = filter.replace("PREFIX", &self.options.prefix);
        let info = self.stream("INFO", json!({ "subjects_filter": filter })).await;
        info["state"]["subjects"].as_object().map_or(0, serde_json::Map::len)
    }

    /// Removes what the test has written.
    pub async fn clean(self) {
        if self.private.is_none() {
            self.stream("DELETE", Value::Null).await;
        }
    }
}

fn of_its_own(mut options: NatsOptions) -> NatsOptions {
    options.prefix = format!("anarchon-test-{}-{}", std::process::id(), next_number());
    options
}

pub async fn opened(options: NatsOptions) -> NatsBackend {
    let backend = NatsBackend::with_options(options).expect("the options are allowed");
    backend.init().await.expect("the store opens");
    backend
}

/// A server of one test: it can be killed, started again and paused.
pub struct Private {
    pub port: u16,
    program: PathBuf,
    directory: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

impl Private {
    /// Starts a current server with these arguments beside the usual ones.
    pub async fn start(arguments: &[&str]) -> Option<Private> {
        Private::start_on(free_port(), arguments).await
    }

    pub async fn start_on(port: u16, arguments: &[&str]) -> Option<Private> {
        let Some(program) = nats_server() else {
            skip("no current NATS server; run make build, or set ANARCHON_TEST_NATS_SERVER");
            return None;
        };
        let name = format!("anarchon-nats-{}-{}", std::process::id(), next_number());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let child = launch(&program, port, &directory, &arguments).expect("the server starts");
        let server = Private { port, program, directory, arguments, child };
        server.ready().await;
        Some(server)
    }

    pub fn options(&self) -> NatsOptions {
        NatsOptions::new(format!("127.0.0.1:{}", self.port))
    }

    /// Waits until the server takes connections.
    async fn ready(&self) {
        for _ in 0..800 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            sleep_for(&SystemClock, 25).await;
        }
        panic!("nats-server on port {} does not answer", self.port);
    }

    /// Kills the server as a crash does, and starts it again on what it had written.
    pub async fn restart(&mut self) {
        self.kill();
        self.start_again().await;
    }

    pub async fn start_again(&mut self) {
        self.child =
            launch(&self.program, self.port, &self.directory, &self.arguments).expect("starts");
        self.ready().await;
    }

    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }

    /// Stops it from answering, with its connections open. On a busy machine its threads stop one
    /// after the other, and until then it answers.
    pub fn pause(&self) {
        self.signal("-STOP");
        while self.threads().any(|stat| !stat.contains(") T ")) {
            std::thread::yield_now();
        }
    }

    /// What Linux says of its threads; nothing elsewhere.
    fn threads(&self) -> impl Iterator<Item = String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let tasks = tasks.into_iter().flatten().flatten();
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.kill();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

fn launch(
    program: &Path,
    port: u16,
    directory: &Path,
    arguments: &[String],
) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
    if !arguments.iter().any(|word| word == "--no-jetstream") {
        command.arg("-js").arg("-sd").arg(directory);
    }
    command
        .args(arguments.iter().filter(|word| *word != "--no-jetstream"))
        .arg("-l")
        .arg(directory.join("nats.log"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
