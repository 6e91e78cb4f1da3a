//! Being told of the ends of runs. What is not heard costs only time: nothing relies on it.

use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::store::Shared;
use crate::backend::contract::{Wake, WakeListener};
use crate::clock::{SystemClock, sleep_for};

/// The longest wait before subscribing anew (ms).
const LONGEST_PAUSE_MS: i64 = 10_000;

/// How often a subscription that hears nothing looks whether anybody still listens (ms).
const IDLE_MS: i64 = 60_000;

/// A subscription of one listener.
pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) subject: String,
    pub(super) listener: Weak<WakeListener>,
    pub(super) closing: CancellationToken,
}

impl Watch {
    /// Listens until the store is closed or the listener is gone. The client subscribes anew by
    /// itself when a connection was lost; when it gave up, it is done here.
    pub(super) async fn listen(self) {
        let closing = self.closing.clone();
        tokio::select! {
            () = closing.cancelled() => {}
            () = self.keep_listening() => {}
        }
    }

    async fn keep_listening(self) {
        let mut pause = 100;
        while self.is_wanted() {
            if self.subscription().await {
                pause = 100;
            }
            sleep_for(&SystemClock, pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE_MS);
        }
    }

    fn is_wanted(&self) -> bool {
        self.listener.strong_count() > 0
    }

    /// One subscription to its end; false if it could not be made.
    async fn subscription(&self) -> bool {
        let Ok(link) = self.shared.links.take().await else { return false };
        let Ok(mut messages) = link.client.subscribe(self.subject.clone()).await else {
            return false;
        };
        while self.is_wanted() {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.tell(&String::from_utf8_lossy(&message.payload)),
                    None => return true,
                },
                () = sleep_for(&SystemClock, IDLE_MS) => {}
            }
        }
        true
    }

    /// A message is a word and the job's name.
    fn tell(&self, message: &str) {
        let Some((word, job)) = message.split_once(' ') else { return };
        let wake = match word {
            "released" => Wake::Released,
            "finished" => Wake::Finished,
            _ => return,
        };
        if let Some(listener) = self.listener.upgrade() {
            listener(job, wake);
        }
    }
}
