//! The subscription by which the ends of runs are heard of.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::link;
use super::options::RedisOptions;
use crate::backends::watching::Source;
use crate::clock::{SystemClock, sleep_for};

/// The channel on which the ends of runs in a namespace are told.
pub(super) struct Channel {
    pub(super) options: Arc<RedisOptions>,
    pub(super) name: String,
}

#[async_trait]
impl Source for Channel {
    async fn subscribe(&self) -> Option<BoxStream<'static, Vec<u8>>> {
        let client = link::client(&self.options).ok()?.ok()?;
        let subscribing = async {
            let mut pubsub = client.get_async_pubsub().await.ok()?;
            pubsub.subscribe(&self.name).await.ok()?;
            Some(pubsub)
        };
        let pubsub = tokio::select! {
            pubsub = subscribing => pubsub?,
            () = sleep_for(&SystemClock, self.options.call_timeout_ms) => return None,
        };
        let messages = pubsub.into_on_message();
        Some(messages.map(|message| message.get_payload_bytes().to_vec()).boxed())
    }
}
