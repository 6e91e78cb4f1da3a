//! The servers that tests run against, and what is said of one that is not there.

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a kind of server is found unless a variable says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// For messages.
    pub name: &'static str,
    /// The variable with its URL.
    pub variable: &'static str,
    /// The URL without it.
    pub default_url: &'static str,
}

/// PostgreSQL.
pub const POSTGRES: Server = Server {
    name: "PostgreSQL",
    variable: "ANARCHON_TEST_POSTGRES_URL",
    default_url: "postgres://postgres@127.0.0.1:5432/test",
};

/// MariaDB or MySQL.
pub const MYSQL: Server = Server {
    name: "MariaDB or MySQL",
    variable: "ANARCHON_TEST_MYSQL_URL",
    default_url: "mysql://root@127.0.0.1:3306/test",
};

/// Redis or Valkey.
pub const REDIS: Server = Server {
    name: "Redis",
    variable: "ANARCHON_TEST_REDIS_URL",
    default_url: "redis://127.0.0.1:6379",
};

/// NATS with JetStream: a server of any version from 2.9 on.
pub const NATS: Server = Server {
    name: "NATS",
    variable: "ANARCHON_TEST_NATS_URL",
    default_url: "nats://127.0.0.1:4222",
};

/// The program of a current NATS server: the one that `ANARCHON_TEST_NATS_SERVER` names, or the one
/// that `make build` has installed.
pub fn nats_server() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ANARCHON_TEST_NATS_SERVER") {
        return Some(named.into());
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.build/venv/bin/nats-server");
    tools.exists().then_some(tools)
}

/// RabbitMQ.
pub const RABBITMQ: Server = Server {
    name: "RabbitMQ",
    variable: "ANARCHON_TEST_RABBITMQ_URL",
    default_url: "amqp://guest:guest@127.0.0.1:5672",
};

impl Server {
    /// Its URL, if it is there. Else the test is skipped, aloud; where `CI` is set it fails.
    ///
    /// # Panics
    /// Where `CI` is set and the server does not answer.
    pub fn url(&self) -> Option<String> {
        let url = std::env::var(self.variable).unwrap_or_else(|_| self.default_url.to_owned());
        if self.answers(&url) {
            return Some(url);
        }
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"),
            "{} does not answer; set {}",
            self.name,
            self.variable
        );
        println!("SKIPPED: {} does not answer; set {}", self.name, self.variable);
        None
    }

    fn answers(&self, url: &str) -> bool {
        let (host, port) = host_and_port(url);
        let address = (host.as_str(), port).to_socket_addrs().ok().and_then(|mut all| all.next());
        address.is_some_and(|address| std::net::TcpStream::connect(address).is_ok())
    }
}

/// Removes the queues and streams of a RabbitMQ whose names begin so, where we may: a stream does not
/// go by itself.
pub fn forget_rabbitmq(prefix: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../forget-rabbitmq.sh");
    let mut command = Command::new(script);
    let _left = command.arg(prefix).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Host and port of a URL.
///
/// # Panics
/// If the URL has none: a test's URL names both.
pub fn host_and_port(url: &str) -> (String, u16) {
    let rest = url.split_once("://").expect("a URL has a scheme").1;
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let server = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = server.rsplit_once(':').expect("the URL of a test names the port");
    (host.to_owned(), port.parse().expect("a port is a number"))
}

/// The same URL with another port on this machine.
///
/// # Panics
/// If the URL has no host and port.
pub fn with_port(url: &str, port: u16) -> String {
    let (host, before) = host_and_port(url);
    url.replacen(&format!("{host}:{before}"), &format!("127.0.0.1:{port}"), 1)
}
