//! A host object, reduced to what the core needs of it.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::error::{Error, Result};

/// What a transaction of a user's SQL client runs: it may be run again with another object.
pub type HostBody =
    Arc<dyn Fn(Arc<dyn HostObject>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// An object of the host language whose methods can be called by name.
///
/// Arguments and answers are plain JSON values in the style of the language. An error that a method
/// throws comes back as [`Error::Host`] with the object it is.
#[async_trait]
pub trait HostObject: Send + Sync {
    /// Its class, for messages.
    fn describe(&self) -> String;

    /// Whether it has this member. Read once, when the object is handed over.
    fn has(&self, member: &str) -> bool;

    /// Whether a method takes an argument of this name: asked for arguments that were added after
    /// the method's first form was published.
    fn takes(&self, member: &str, argument: &str) -> bool;

    /// Calls a method and waits for what it answers, whether it answers at once or later.
    ///
    /// # Errors
    /// What the method throws; `BACKEND_UNAVAILABLE` if the thread or loop of the object is gone.
    async fn call(
        &self,
        member: &str,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Value>;

    /// Calls the method `transaction` with a function that runs `body` on the object it is given.
    ///
    /// # Errors
    /// What the method throws.
    async fn transaction(&self, _body: HostBody) -> Result<()> {
        Err(Error::option(format!("{} has no method transaction", self.describe())))
    }
}
