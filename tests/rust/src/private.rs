//! Servers of one test alone: they are started on a free port, and killed with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anarchon::clock::{SystemClock, sleep_for};

use crate::certificates::Certificates;

/// A running server, on a folder that is gone with it.
pub struct Private {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    child: Child,
    folder: PathBuf,
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody listens on.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Says that a test cannot run here; a failure where `CI` is true.
fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    println!("SKIPPED: {why}");
}

fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|end| end.success())
}

/// A program of PostgreSQL, as a user that it agrees to run as. Debian keeps most of them in a
/// folder of their version.
fn postgres_program(name: &str) -> Option<Command> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let of_debian = versions.into_iter().flatten().flatten().map(|one| one.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = of_debian.chain(std::env::split_paths(&path));
    let program = folders.map(|folder| folder.join(name)).find(|file| file.exists());
    let program = program?;
    if std::fs::read_dir("/root").is_err() {
        return Some(Command::new(program));
    }
    // It refuses to run as root.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    Some(command)
}

fn give_to_postgres(folder: &Path) {
    // Where the test is not root's, its files are its own already.
    let _given = runs(Command::new("chown").arg("-R").arg("postgres:postgres").arg(folder));
}

impl Private {
    /// A PostgreSQL that lets in whoever comes encrypted and shows a certificate of this authority.
    ///
    /// # Panics
    /// If the server is there and does not start.
    pub async fn postgres_with_tls(made: &Certificates) -> Option<Private> {
        let (Some(mut init), Some(mut server)) =
            (postgres_program("initdb"), postgres_program("postgres"))
        else {
            skip("no initdb and postgres on this machine");
            return None;
        };
        let (port, folder) = (free_port(), made.folder().join("postgres"));
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        give_to_postgres(made.folder());
        let data = folder.join("data");
        let words = ["--auth=trust", "--username=postgres", "--no-sync", "-D"];
        assert!(runs(init.args(words).arg(&data)), "initdb makes a database");
        let rule = "hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n";
        std::fs::write(data.join("pg_hba.conf"), rule).expect("the folder can be written");
        let key = made.file("key.pem");
        assert!(runs(Command::new("chmod").arg("600").arg(&key)), "the key is for its owner alone");
        let mut set = |name: &str, value: &str| {
            server.arg("-c").arg(format!("{name}={value}"));
        };
        set("ssl", "on");
        set("ssl_ca_file", &made.text("ca.pem"));
        set("ssl_cert_file", &made.text("cert.pem"));
        set("ssl_key_file", &made.text("key.pem"));
        set("listen_addresses", "127.0.0.1");
        set("port", &port.to_string());
        set("unix_socket_directories", "");
        server.arg("-D").arg(&data);
        let private = Private::started(server, port, folder).await;
        // It listens before it is ready, and says in this file how far it is.
        for _ in 0..1_200 {
            let told = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            if told.trim_end().ends_with("ready") {
                return Some(private);
            }
            sleep_for(&SystemClock, 50).await;
        }
        panic!("the server on port {port} is never ready");
    }

    /// A MariaDB with a database `jobs` and a user `replica` who must come encrypted and show a
    /// certificate of this authority.
    ///
    /// # Panics
    /// If the server is there and does not start.
    pub async fn mariadb_with_tls(made: &Certificates) -> Option<Private> {
        let (port, folder) = (free_port(), made.folder().join("mariadb"));
        let data = folder.join("data");
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        let is_root = std::fs::read_dir("/root").is_ok();
        let data_folder = format!("--datadir={}", data.display());
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", &data_folder]);
        if is_root {
            install.arg("--user=root");
        }
        if !runs(&mut install) {
            skip("no mariadb-install-db on this machine");
            return None;
        }
        let first = folder.join("first.sql");
        let text = "CREATE DATABASE jobs;\nCREATE USER replica@'%' REQUIRE X509;\n\
                    GRANT ALL ON jobs.* TO replica@'%';\n";
        std::fs::write(&first, text).expect("the folder can be written");
        let mut server = Command::new("mariadbd");
        server.args(["--no-defaults", "--skip-name-resolve", "--bind-address=127.0.0.1"]);
        server.arg(data_folder).arg(format!("--port={port}"));
        server.arg(format!("--socket={}", folder.join("socket").display()));
        server.arg(format!("--pid-file={}", folder.join("pid").display()));
        server.arg(format!("--init-file={}", first.display()));
        for (option, file) in [("ca", "ca.pem"), ("cert", "cert.pem"), ("key", "key.pem")] {
            server.arg(format!("--ssl-{option}={}", made.text(file)));
        }
        if is_root {
            server.arg("--user=root");
        }
        Some(Private::started(server, port, folder).await)
    }

    async fn started(mut server: Command, port: u16, folder: PathBuf) -> Private {
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut private = Private { port, child: child.expect("it was there"), folder };
        for _ in 0..1_200 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return private;
            }
            if let Ok(Some(status)) = private.child.try_wait() {
                panic!("the server ended: {status}");
            }
            sleep_for(&SystemClock, 50).await;
        }
        panic!("the server on port {port} does not listen");
    }
}
