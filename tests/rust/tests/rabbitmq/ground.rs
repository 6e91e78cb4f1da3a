//! A server, and queues on it that belong to one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
use anarchon_tests::servers::{RABBITMQ, forget_rabbitmq};

/// A number that no other test of this process has.
pub fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Says that a test cannot run here; a failure where `CI` is true.
pub fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    println!("SKIPPED: {why}");
}

/// The server that the environment names, with a prefix of its own.
pub struct Ground {
    pub options: RabbitMqOptions,
}

impl Ground {
    pub fn new() -> Option<Ground> {
        let mut options = RabbitMqOptions::from_url(&RABBITMQ.url()?).expect("a URL");
        options.prefix = format!("anarchon-test-{}-{}", std::process::id(), next_number());
        Some(Ground { options })
    }

    /// An open store.
    pub async fn open(&self) -> RabbitMqBackend {
        opened(self.options.clone()).await
    }

    /// Stores of their own, as different processes have them.
    pub async fn replicas(&self, count: usize) -> Vec<Arc<dyn Backend>> {
        let mut replicas: Vec<Arc<dyn Backend>> = Vec::new();
        for _ in 0..count {
            replicas.push(Arc::new(self.open().await));
        }
        replicas
    }
}

impl Drop for Ground {
    /// Removes what the test has left, where we may. Claims expire by themselves.
    fn drop(&mut self) {
        forget_rabbitmq(&format!("{}.", self.options.prefix));
    }
}

pub async fn opened(options: RabbitMqOptions) -> RabbitMqBackend {
    let store = RabbitMqBackend::with_options(options).expect("the options are allowed");
    store.init().await.expect("the store opens");
    store
}

/// Now (ms).
pub fn now() -> i64 {
    anarchon::clock::Clock::wall_ms(&anarchon::clock::SystemClock)
}
