//! A listener that remembers what it was told of the ends of runs.

use std::sync::{Arc, Mutex, PoisonError};

use anarchon::backend::contract::{Wake, WakeListener};
use anarchon::clock::{SystemClock, sleep_for};

/// What a listener was told, in order.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<(String, Wake)>>>);

/// A listener, and what it hears.
pub fn listener() -> (Arc<WakeListener>, Heard) {
    let heard = Heard::default();
    let into = heard.clone();
    let listener: Arc<WakeListener> = Arc::new(move |job: &str, wake: Wake| {
        into.0.lock().unwrap_or_else(PoisonError::into_inner).push((job.to_owned(), wake));
    });
    (listener, heard)
}

impl Heard {
    /// What has been told since the last time.
    pub fn taken(&self) -> Vec<(String, Wake)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, once there is anything.
    pub async fn until_heard(&self) -> Vec<(String, Wake)> {
        loop {
            let told = self.taken();
            if !told.is_empty() {
                return told;
            }
            sleep_for(&SystemClock, 2).await;
        }
    }
}
