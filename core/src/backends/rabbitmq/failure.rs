//! What an error of the server means.

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

use super::options::RabbitMqOptions;
use crate::error::{Code, Error};

/// What the server said when it closed a channel because a queue is there with other arguments:
/// the name of the first argument that differs.
pub(super) fn differing_argument(error: &lapin::Error) -> Option<&str> {
    let ErrorKind::ProtocolError(said) = error.kind() else { return None };
    if *said.kind() != AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) {
        return None;
    }
    argument_in(said.get_message().as_str())
}

/// A text of at most 255 bytes, cut by the server; the argument stands near its beginning.
fn argument_in(text: &str) -> Option<&str> {
    text.split_once("inequivalent arg '")?.1.split_once('\'').map(|(name, _)| name)
}

/// Whether the server said that there is no such queue.
pub(super) fn is_not_found(error: &lapin::Error) -> bool {
    // A queue whose node is down is "not found" as well, and is there all the same.
    matches!(error.kind(), ErrorKind::ProtocolError(said)
        if *said.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)
            && said.get_message().as_str().contains("no queue"))
}

/// Whether the server stumbled over itself: releases as old as 3.10 do over a stream that another
/// client is just declaring.
pub(super) fn is_stumble(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(said)
        if matches!(
            said.kind(),
            AMQPErrorKind::Hard(AMQPHardError::INTERNALERROR | AMQPHardError::RESOURCEERROR)
        ) && !said.get_message().as_str().contains("feature flag"))
}

/// Whether only the channel is of no use any more, and its connection still is.
pub(super) fn is_of_channel(error: &lapin::Error) -> bool {
    error.is_amqp_soft_error() || matches!(error.kind(), ErrorKind::ChannelsLimitReached)
}

/// The error as callers see it. Everything that is not a refusal is unknown: neither won nor lost.
pub(super) fn told(options: &RabbitMqOptions, error: &lapin::Error) -> Error {
    let place = options.address();
    let text = anonymous(&error.to_string(), &options.username);
    let refused = |advice: &str| {
        Error::new(Code::BackendRefused, format!("RabbitMQ at {place}: {text}. {advice}"))
    };
    let ErrorKind::ProtocolError(said) = error.kind() else {
        return Error::unavailable(format!("RabbitMQ at {place}: {text}"));
    };
    let message = said.get_message().as_str();
    match said.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if message.contains("Login was") => {
            refused("Check user and password of the URL")
        }
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => refused(
            "The user needs the permissions to configure, write and read the queues under the \
             prefix, and to write to the exchange amq.default",
        ),
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => refused(
            "Check the virtual host of the URL (the path; %2F is the one called /), and that the \
             user may use it",
        ),
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if message.contains("limit") => {
            refused("Each claimed slot is a queue until the dedupe window is over: raise the limit")
        }
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => refused(
            "At least RabbitMQ 3.9 is needed, and nobody else may declare queues under the prefix",
        ),
        AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => {
            refused("Nobody else may declare queues under the prefix")
        }
        AMQPErrorKind::Hard(_) if message.contains("feature flag") => {
            refused("Streams are needed: rabbitmqctl enable_feature_flag stream_queue")
        }
        _ => Error::unavailable(format!("RabbitMQ at {place}: {text}")),
    }
}

/// The server names users in what it says; no message of ours shows a user.
fn anonymous(text: &str, username: &str) -> String {
    text.replace(&format!("user '{username}'"), "this user")
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
