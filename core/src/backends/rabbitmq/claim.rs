//! The one atomic step: declaring a queue with the token among its arguments.

use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::failure;
use super::lane::{Lane, Trouble};
use super::link::Link;
use crate::error::{Code, Error};

/// How declaring a queue was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// It is ours: it was not there, or it was there with our token.
    Ours,
    /// It is there with another token.
    Theirs,
}

/// The argument that holds the token. Nothing is ever dead-lettered: the queue stays empty.
const TOKEN: &str = "x-dead-letter-routing-key";
const EXPIRES: &str = "x-expires";

/// Declares a durable classic queue for a token. It expires (ms) when it has not been declared with
/// the same token for so long; `None` for never.
///
/// Only the refusal of an argument means that somebody else has it. Every other answer, and none, is
/// unknown.
pub(super) async fn declare(
    mut lane: Lane,
    queue: &str,
    token: &str,
    expires_ms: Option<i64>,
) -> Result<Declared, Trouble> {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let channel = lane.channel.clone();
    let declaring = channel.queue_declare(queue.into(), durable, arguments(token, expires_ms));
    match lane.ask("a claim", declaring).await {
        Ok(_) => {
            lane.give_back();
            Ok(Declared::Ours)
        }
        Err(Trouble::Lapin(error)) => match failure::differing_argument(&error) {
            // The window may differ while replicas are being replaced: the slot is taken all the
            // same, by a replica with the other window.
            Some(TOKEN | EXPIRES) => Ok(Declared::Theirs),
            Some(other) => Err(Trouble::Ours(not_ours(&lane.link, queue, other))),
            None => Err(Trouble::Lapin(error)),
        },
        Err(trouble) => Err(trouble),
    }
}

fn not_ours(link: &Link, queue: &str, argument: &str) -> Error {
    let place = link.options.address();
    Error::new(
        Code::BackendRefused,
        format!(
            "RabbitMQ at {place}: the queue {queue:?} is not one of ours (its {argument} is \
             another); choose another prefix"
        ),
    )
}

fn arguments(token: &str, expires_ms: Option<i64>) -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    let mut set = |name: &str, value| {
        arguments.insert(ShortString::from(name), value);
    };
    // Said, because a virtual host may have another default.
    set("x-queue-type", text("classic"));
    set("x-dead-letter-exchange", text(""));
    set(TOKEN, text(token));
    if let Some(expires_ms) = expires_ms {
        set(EXPIRES, AMQPValue::LongLongInt(expires_ms));
    }
    arguments
}

/// Removes a queue.
pub(super) async fn delete(mut lane: Lane, queue: &str) -> Result<(), Trouble> {
    let channel = lane.channel.clone();
    let deleting = channel.queue_delete(queue.into(), QueueDeleteOptions::default());
    lane.ask("deleting a queue", deleting).await?;
    lane.give_back();
    Ok(())
}

/// Whether there is such a queue. Never asked of a claim: it would put off the end of the queue.
pub(super) async fn is_there(mut lane: Lane, queue: &str) -> Result<bool, Trouble> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let channel = lane.channel.clone();
    let asking = channel.queue_declare(queue.into(), passive, FieldTable::default());
    match lane.ask("a question for a queue", asking).await {
        Ok(_) => {
            lane.give_back();
            Ok(true)
        }
        Err(Trouble::Lapin(error)) if failure::is_not_found(&error) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}
