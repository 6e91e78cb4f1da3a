//! The subscription by which the ends of runs are heard of.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::store::Shared;
use crate::backends::watching::Source;

/// The subject on which the ends of runs in a namespace are told. The client subscribes anew by
/// itself when a connection was lost; when it gave up, the subscription ends.
pub(super) struct Subject {
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
}

#[async_trait]
impl Source for Subject {
    async fn subscribe(&self) -> Option<BoxStream<'static, Vec<u8>>> {
        let link = self.shared.links.take().await.ok()?;
        let messages = link.client.subscribe(self.name.clone()).await.ok()?;
        Some(messages.map(|message| message.payload.to_vec()).boxed())
    }
}
