//! An authority of a test's own, and a certificate of it that server and client both use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with `ca.pem`, `cert.pem` and `key.pem`, gone with it.
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes them for 127.0.0.1; `None`, aloud, where there is no openssl.
    ///
    /// # Panics
    /// If the folder cannot be written; where `CI` is true and there is no openssl.
    pub fn make() -> Option<Certificates> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anarchon-tls-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
        let made = Certificates(directory);
        std::fs::write(made.file("san"), "subjectAltName=IP:127.0.0.1\n").expect("writes");
        let steps = [
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
            "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request",
            "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
             -out cert.pem",
        ];
        for step in steps {
            let done = Command::new("openssl")
                .args(step.split_whitespace())
                .current_dir(&made.0)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !done.is_ok_and(|status| status.success()) {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "openssl is needed");
                println!("SKIPPED: no openssl to make certificates with");
                return None;
            }
        }
        Some(made)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file of it, as a URL names it.
    pub fn text(&self, name: &str) -> String {
        self.file(name).to_string_lossy().into_owned()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
