//! A channel in use. Claims that fall together go over several, with a bound.

use std::sync::{Arc, PoisonError};

use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::OwnedSemaphorePermit;

use super::failure;
use super::link::{Link, Purpose, within};
use crate::error::{Error, Result};

/// A channel that nobody uses at the moment.
pub(super) struct Idle {
    channel: Channel,
    uses: usize,
}

/// How often a channel is used: the client keeps the name of every queue that was declared on one.
const USES: usize = 1_000;

/// A channel in use, until it is given back. If the caller stops waiting for an answer, nobody
/// knows whether there will ever be one: then the whole connection is given up.
pub(super) struct Lane {
    pub(super) channel: Channel,
    pub(super) link: Arc<Link>,
    uses: usize,
    is_answered: bool,
    _place: OwnedSemaphorePermit,
}

/// Why there is no answer: by the library, for those who look closer, or in our words.
pub(super) enum Trouble {
    Lapin(lapin::Error),
    Ours(Error),
}

impl Trouble {
    /// The error as callers see it.
    pub(super) fn told(&self, link: &Link) -> Error {
        match self {
            Trouble::Lapin(error) => failure::told(&link.options, error),
            Trouble::Ours(error) => error.clone(),
        }
    }

    /// Whether asking again at once, over a new connection, can help: the old one was lost.
    pub(super) fn is_worth_repeating(&self) -> bool {
        matches!(self, Trouble::Lapin(error) if !failure::is_of_channel(error))
    }
}

impl Lane {
    /// A channel of the connection, once there is a place for one more.
    pub(super) async fn of(link: &Arc<Link>) -> Result<Lane, Trouble> {
        let (options, places) = (&link.options, link.places.clone());
        let place = within(options, "waiting for a channel", places.acquire_owned()).await;
        let place = place
            .map_err(Trouble::Ours)?
            .map_err(|_| Trouble::Ours(Error::unavailable("the connection has been closed")))?;
        let opening = Opening { link, is_answered: false };
        let (channel, uses) = match take_idle(link) {
            Some(Idle { channel, uses }) => (channel, uses),
            None => (
                within(options, "opening a channel", opened(link))
                    .await
                    .map_err(Trouble::Ours)??,
                0,
            ),
        };
        opening.over();
        Ok(Lane { channel, link: link.clone(), uses: uses + 1, is_answered: true, _place: place })
    }

    /// Waits for an answer of the server.
    pub(super) async fn ask<T>(
        &mut self,
        what: &str,
        answer: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, Trouble> {
        self.is_answered = false;
        let answer = within(&self.link.options, what, answer).await.map_err(Trouble::Ours)?;
        self.is_answered = answer.as_ref().err().is_none_or(failure::is_of_channel);
        answer.map_err(Trouble::Lapin)
    }

    /// The channel can be used again.
    pub(super) fn give_back(self) {
        let (channel, uses) = (self.channel.clone(), self.uses);
        if uses < USES && channel.status().connected() {
            let mut idle = self.link.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Idle { channel, uses });
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.spend();
        }
    }
}

/// A channel that is being opened; the same holds for its answer.
struct Opening<'a> {
    link: &'a Link,
    is_answered: bool,
}

impl Opening<'_> {
    fn over(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.spend();
        }
    }
}

fn take_idle(link: &Link) -> Option<Idle> {
    let mut idle = link.idle.lock().unwrap_or_else(PoisonError::into_inner);
    idle.retain(|one| one.channel.status().connected());
    idle.pop()
}

async fn opened(link: &Link) -> Result<Channel, Trouble> {
    let channel = link.connection.create_channel().await.map_err(Trouble::Lapin)?;
    if link.purpose == Purpose::Records {
        let confirming = channel.confirm_select(ConfirmSelectOptions::default());
        confirming.await.map_err(Trouble::Lapin)?;
    }
    Ok(channel)
}
