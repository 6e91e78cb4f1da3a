//! Being told of the ends of runs. What is not heard costs only time: nothing relies on it.

use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::link;
use super::options::RedisOptions;
use crate::backend::contract::{Wake, WakeListener};
use crate::clock::{SystemClock, sleep_for};

/// The longest wait before subscribing anew (ms).
const LONGEST_PAUSE_MS: i64 = 10_000;

/// How often a subscription that hears nothing looks whether anybody still listens (ms).
const IDLE_MS: i64 = 60_000;

/// A subscription of one listener.
pub(super) struct Watch {
    pub(super) options: Arc<RedisOptions>,
    pub(super) channel: String,
    pub(super) listener: Weak<WakeListener>,
    pub(super) closing: CancellationToken,
}

impl Watch {
    /// Listens until the store is closed or the listener is gone; subscribes anew when the
    /// connection is lost.
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
            if self.subscription().await.is_ok() {
                pause = 100;
            }
            sleep_for(&SystemClock, pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE_MS);
        }
    }

    fn is_wanted(&self) -> bool {
        self.listener.strong_count() > 0
    }

    /// One subscription to its end; an error if it could not be made.
    async fn subscription(&self) -> Result<(), ()> {
        let client = link::client(&self.options).map_err(drop)?.map_err(drop)?;
        let subscribing = async {
            let mut pubsub = client.get_async_pubsub().await.map_err(drop)?;
            pubsub.subscribe(&self.channel).await.map_err(drop)?;
            Ok::<_, ()>(pubsub)
        };
        let pubsub = tokio::select! {
            pubsub = subscribing => pubsub?,
            () = sleep_for(&SystemClock, self.options.call_timeout_ms) => return Err(()),
        };
        let mut messages = pubsub.into_on_message();
        while self.is_wanted() {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.tell(&String::from_utf8_lossy(message.get_payload_bytes())),
                    None => return Ok(()),
                },
                () = sleep_for(&SystemClock, IDLE_MS) => {}
            }
        }
        Ok(())
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
