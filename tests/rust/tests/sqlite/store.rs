//! What the tests share: a directory that goes away, a store in it, claims.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::sqlite::{SqliteBackend, SqliteOptions};

/// A directory that is removed when the test is over.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anarchon-sqlite-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self) -> PathBuf {
        self.0.join("jobs.db")
    }

    /// Options for a file in it. The disk is not waited for: no test here cuts the power.
    pub fn options(&self) -> SqliteOptions {
        let mut options = SqliteOptions::new(self.file());
        options.synchronous = anarchon::backends::sqlite::Synchronous::Normal;
        options
    }

    /// An open store in it.
    pub async fn open(&self) -> SqliteBackend {
        opened(self.options()).await
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub async fn opened(options: SqliteOptions) -> SqliteBackend {
    let backend = SqliteBackend::with_options(options).expect("the options are allowed");
    backend.init().await.expect("the store opens");
    backend
}
