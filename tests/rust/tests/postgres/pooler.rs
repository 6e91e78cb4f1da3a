//! S12: behind PgBouncer in transaction mode, where every transaction has another connection.

use std::process::{Child, Command, Stdio};

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::postgres::PostgresOptions;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::private::free_port;
use anarchon_tests::servers::{host_and_port, with_port};

use crate::store::{Schema, opened};

/// A private PgBouncer in front of the server, with two server connections for all clients.
struct Pooler {
    process: Child,
    folder: std::path::PathBuf,
    port: u16,
}

impl Pooler {
    /// `None`, aloud, if there is none on this machine.
    async fn start(schema: &Schema) -> Option<Pooler> {
        let (host, server_port) = host_and_port(&schema.url);
        let port = free_port();
        let folder = std::env::temp_dir().join(&schema.name);
        std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let config = folder.join("pgbouncer.ini");
        let user = schema.options().server.user.unwrap_or("postgres".to_owned());
        let text = format!(
            "[databases]\n* = host={host} port={server_port} user={user}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n\
             server_round_robin = 1\n"
        );
        std::fs::write(&config, text).expect("the folder can be written");
        // It refuses to run as root.
        let root = std::env::var("USER").is_ok_and(|user| user == "root")
            || std::fs::read_dir("/root").is_ok();
        let mut command = program();
        if root {
            command.args(["-u", "nobody"]);
        }
        let started = command.arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(process) = started else {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"),
                "there is no pgbouncer on this machine"
            );
            println!("SKIPPED: there is no pgbouncer on this machine");
            return None;
        };
        let pooler = Pooler { process, folder, port };
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(pooler);
            }
            sleep_for(&SystemClock, 10).await;
        }
        panic!("pgbouncer never listens");
    }

    fn options(&self, schema: &Schema) -> PostgresOptions {
        schema.options_at(&with_port(&schema.url, self.port))
    }
}

/// The machine's, or the one that `make test` fetched.
fn program() -> Command {
    let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.build/debian");
    let file = format!("{fetched}/usr/sbin/pgbouncer");
    if !std::path::Path::new(&file).exists() {
        return Command::new("pgbouncer");
    }
    let mut command = Command::new(file);
    let libraries = format!("{fetched}/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    command.env("LD_LIBRARY_PATH", libraries);
    command
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ended = (self.process.kill(), self.process.wait());
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// A run from its claim to its end, several at once so that connections change hands.
async fn lives_of_runs(options: PostgresOptions) {
    let store = opened(options).await;
    let jobs: Vec<_> = (0..8).map(|number| limits(&format!("job-{number}"))).collect();
    assert!(store.prepare_jobs(&jobs).await.iter().all(Result::is_ok));
    for slot in 1..=10 {
        let lives = jobs.iter().map(|job| async {
            let outcome = RunStore::claim(&store, &claim(&job.name, slot, "one")).await;
            assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
            let other = RunStore::claim(&store, &claim(&job.name, slot, "two")).await;
            assert_eq!(other.expect("answers").kind, OutcomeKind::Running);
            let beat = store.heartbeat(&job.name, slot, "one", 30_000).await;
            assert!(beat.expect("answers"));
            let ended = store.finish(&job.name, slot, "one", Status::Succeeded, None).await;
            assert!(ended.expect("answers"));
        });
        futures_util::future::join_all(lives).await;
    }
    assert_eq!(store.history("job-3", 100).await.expect("reads").len(), 10);
    store.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_nothing_prepared_all_works_behind_pgbouncer() {
    let Some(schema) = Schema::new().await else { return };
    let Some(pooler) = Pooler::start(&schema).await else { return };
    let mut options = pooler.options(&schema);
    options.server.statement_cache = 0;
    lives_of_runs(options).await;
}

/// Prepared statements are lost there, which is noticed, and none is prepared from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_in_the_options_is_noticed() {
    let Some(schema) = Schema::new().await else { return };
    let Some(pooler) = Pooler::start(&schema).await else { return };
    lives_of_runs(pooler.options(&schema)).await;
}
