//! A backend object that several schedulers share.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::backend::contract::Backend;
use crate::error::Result;

/// Initialises a backend once, for its first user, and closes it after its last.
pub struct SharedBackend {
    backend: Arc<dyn Backend>,
    users: Mutex<Users>,
}

#[derive(Default)]
struct Users {
    count: usize,
    ready: bool,
}

impl SharedBackend {
    /// Wraps a backend; nothing is called yet.
    pub fn new(backend: Arc<dyn Backend>) -> Arc<SharedBackend> {
        Arc::new(SharedBackend { backend, users: Mutex::default() })
    }

    /// The backend itself.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Counts one more user; it must leave again, also if [`SharedBackend::init`] fails.
    pub async fn join(&self) {
        self.users.lock().await.count += 1;
    }

    /// Initialises the backend unless another user has done so.
    ///
    /// # Errors
    /// Whatever `init` of the backend says; the next call tries again.
    pub async fn init(&self) -> Result<()> {
        let mut users = self.users.lock().await;
        if !users.ready {
            self.backend.init().await?;
            users.ready = true;
        }
        Ok(())
    }

    /// Opens the backend for reading, unless another user has initialised it.
    ///
    /// # Errors
    /// Whatever `init_reader` of the backend says.
    pub async fn init_reader(&self) -> Result<()> {
        let users = self.users.lock().await;
        if users.ready { Ok(()) } else { self.backend.init_reader().await }
    }

    /// Counts one user less and closes the backend after the last one.
    ///
    /// # Errors
    /// Whatever `close` of the backend says; it counts as closed all the same.
    pub async fn leave(&self) -> Result<()> {
        let mut users = self.users.lock().await;
        users.count = users.count.saturating_sub(1);
        if users.count > 0 {
            return Ok(());
        }
        users.ready = false;
        self.backend.close().await
    }
}
