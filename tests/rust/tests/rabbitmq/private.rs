//! A server of one test: it can be killed, and be short of memory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon_tests::private::free_port;

use crate::ground::{next_number, skip};

/// Where Debian and the packages of RabbitMQ put what the commands on the path call.
const SERVERS: [&str; 2] = ["/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"];

pub struct Private {
    pub port: u16,
    directory: PathBuf,
    child: Child,
}

impl Private {
    /// Starts a server; `settings` are lines of its `rabbitmq.conf`.
    pub async fn start(settings: &str) -> Option<Private> {
        let name = format!("anarchon-rabbitmq-{}-{}", std::process::id(), next_number());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let port = free_port();
        let usual = format!("listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 1MB\n");
        let config = directory.join("rabbitmq.conf");
        std::fs::write(config, format!("{usual}{settings}\n")).expect("writes");
        let Some(child) = launch(port, &directory) else {
            skip("no rabbitmq-server to start");
            return None;
        };
        let mut server = Private { port, directory, child };
        if !server.is_ready().await {
            let log = std::fs::read_to_string(server.directory.join("out")).unwrap_or_default();
            skip(&format!("a rabbitmq-server of its own does not start here:\n{log}"));
            return None;
        }
        Some(server)
    }

    pub fn options(&self) -> RabbitMqOptions {
        RabbitMqOptions { port: self.port, ..RabbitMqOptions::new("127.0.0.1") }
    }

    /// Waits until the server lets somebody in; it listens a little before that.
    async fn is_ready(&mut self) -> bool {
        for _ in 0..240 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                let store = RabbitMqBackend::with_options(self.options()).expect("allowed");
                if store.init().await.is_ok() {
                    let _closed = store.close().await;
                    return true;
                }
            }
            sleep_for(&SystemClock, 500).await;
        }
        false
    }

    /// Kills the server as a crash does.
    pub fn kill(&mut self) {
        // The whole group: the script, the runtime of Erlang, its helpers.
        let group = format!("-{}", self.child.id());
        let _gone = Command::new("kill").args(["-9", "--", &group]).status();
        let _gone = self.child.wait();
    }

    /// Kills it and starts it again on what it had written.
    pub async fn restart(&mut self) {
        self.kill();
        self.start_again().await;
    }

    pub async fn start_again(&mut self) {
        self.child = launch(self.port, &self.directory).expect("it was there");
        assert!(self.is_ready().await, "the server starts again");
    }

    /// Runs `rabbitmqctl` on it.
    pub fn control(&self, words: &[&str]) {
        let ended = Command::new("/usr/lib/rabbitmq/bin/rabbitmqctl")
            .args(["-n", &node(self.port)])
            .args(words)
            .env("HOME", &self.directory)
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .stdout(Stdio::null())
            .status();
        assert!(ended.is_ok_and(|status| status.success()), "rabbitmqctl {words:?}");
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.kill();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

fn node(port: u16) -> String {
    format!("anarchon{port}@localhost")
}

fn launch(port: u16, directory: &Path) -> Option<Child> {
    let inside = |name: &str| directory.join(name);
    let spawn = |server: &&str| {
        let out = std::fs::File::create(inside("out")).ok()?;
        let mut command = Command::new(server);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
            .env("HOME", directory)
            .env("RABBITMQ_NODENAME", node(port))
            .env("RABBITMQ_DIST_PORT", free_port().to_string())
            .env("RABBITMQ_MNESIA_BASE", inside("data"))
            .env("RABBITMQ_LOG_BASE", inside("log"))
            .env("RABBITMQ_PID_FILE", inside("pid"))
            .env("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", inside("none"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", inside("plugins"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .ok()
    };
    SERVERS.iter().find_map(spawn)
}
