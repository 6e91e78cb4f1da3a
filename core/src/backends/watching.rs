//! Being told of the ends of runs by a server that sends messages to whoever subscribed. What is not
//! heard costs only time: nothing relies on it.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::backend::contract::{Wake, WakeListener};
use crate::clock::{SystemClock, sleep_for};

/// The longest wait before subscribing anew (ms).
const LONGEST_PAUSE_MS: i64 = 10_000;

/// How often a subscription that hears nothing looks whether anybody still listens (ms).
const IDLE_MS: i64 = 60_000;

/// How the messages of a store are subscribed to.
#[async_trait]
pub(super) trait Source: Send + Sync + 'static {
    /// The messages of one subscription until its end; `None` if it could not be made.
    async fn subscribe(&self) -> Option<BoxStream<'static, Vec<u8>>>;
}

/// Tells a listener, in the background, until the store is closed or the listener is gone;
/// subscribes anew when a subscription has ended. Without a runtime around the call nobody can
/// listen, and waits are as long as they are.
pub(super) fn watch(source: impl Source, listener: &Arc<WakeListener>, closing: CancellationToken) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let listener = Arc::downgrade(listener);
    runtime.spawn(async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = keep_listening(&source, &listener) => {}
        }
    });
}

async fn keep_listening(source: &impl Source, listener: &Weak<WakeListener>) {
    let mut pause = 100;
    while listener.strong_count() > 0 {
        if let Some(messages) = source.subscribe().await {
            pass_on(messages, listener).await;
            pause = 100;
        }
        sleep_for(&SystemClock, pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE_MS);
    }
}

async fn pass_on(mut messages: BoxStream<'static, Vec<u8>>, listener: &Weak<WakeListener>) {
    while listener.strong_count() > 0 {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => tell(&String::from_utf8_lossy(&message), listener),
                None => return,
            },
            () = sleep_for(&SystemClock, IDLE_MS) => {}
        }
    }
}

/// A message is a word and the job's name.
fn tell(message: &str, listener: &Weak<WakeListener>) {
    let Some((word, job)) = message.split_once(' ') else { return };
    let wake = match word {
        "released" => Wake::Released,
        "finished" => Wake::Finished,
        _ => return,
    };
    if let Some(listener) = listener.upgrade() {
        listener(job, wake);
    }
}
