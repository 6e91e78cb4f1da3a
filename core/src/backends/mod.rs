//! The stores that come with the library: one folder and one line of [`open`] each.

mod given;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "nats")]
pub mod nats;
mod own;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
mod reading;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sql;
pub mod sqlite;
#[cfg(any(feature = "nats", feature = "redis"))]
mod watching;

use std::sync::Arc;

use crate::backend::contract::Backend;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Opens the store that a URL names, without touching it: no file, no socket.
///
/// # Errors
/// `INVALID_OPTION` for a URL that names no store or has options that the store does not know. No
/// message shows a URL's user info.
pub fn open(url: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Backend>> {
    let (scheme, name) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "memory" => Ok(Arc::new(memory::MemoryBackend::shared(clock, name))),
        "sqlite" => Ok(Arc::new(sqlite::SqliteBackend::from_url(url)?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(mysql::MySqlBackend::from_url(url)?)),
        #[cfg(feature = "nats")]
        "nats" | "nats+tls" | "tls" => Ok(Arc::new(nats::NatsBackend::from_url(url)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(postgres::PostgresBackend::from_url(url)?)),
        #[cfg(feature = "rabbitmq")]
        "amqp" | "amqps" => Ok(Arc::new(rabbitmq::RabbitMqBackend::from_url(url, clock)?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "valkey" | "valkeys" => {
            Ok(Arc::new(redis::RedisBackend::from_url(url)?))
        }
        _ => Err(Error::option(format!(
            "the backend URL begins with {scheme:?}; allowed are memory:, sqlite:, postgres:, \
             mysql:, mariadb:, redis:, valkey:, nats: and amqp:"
        ))),
    }
}
