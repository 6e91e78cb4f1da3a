//! What an error of the client or of JetStream means.

use async_nats::ConnectErrorKind;

use super::api::ApiError;
use super::options::NatsOptions;
use crate::error::{Code, Error};

/// No message is kept under that subject or number.
pub(super) const NO_MESSAGE: u64 = 10037;
/// There is no such stream.
pub(super) const NO_STREAM: u64 = 10059;
/// A stream of this name is there, set up in another way.
pub(super) const OTHER_STREAM: u64 = 10058;

/// Whether the message that was to be followed is no longer the last of its subject.
pub(super) fn is_behind(error: &ApiError) -> bool {
    matches!(error.err_code, 10071 | 10164)
}

/// The error of an attempt to connect.
pub(super) fn connecting(options: &NatsOptions, error: &async_nats::ConnectError) -> Error {
    let place = options.address();
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => Error::new(
            Code::BackendRefused,
            format!(
                "NATS at {place} does not let us in: {}. Check user, password, token, nkeyFile or \
                 credentialsFile",
                error.kind()
            ),
        ),
        _ => Error::unavailable(format!("NATS at {place}: {error}")),
    }
}

/// No answer in time.
pub(super) fn silent(options: &NatsOptions, what: &str, timeout_ms: i64) -> Error {
    let place = options.address();
    Error::unavailable(format!("NATS at {place}: no answer within {timeout_ms} ms ({what})"))
}

/// Whether what the server complained about is this request, or the subject of all answers.
pub(super) fn is_about(complaint: &str, subject: &str) -> bool {
    let complaint = complaint.to_lowercase();
    complaint.contains(&subject.to_lowercase()) || complaint.contains("\"_inbox.")
}

/// The server said why there is no answer.
pub(super) fn complained(options: &NatsOptions, complaint: &str) -> Error {
    let place = options.address();
    if complaint.to_lowercase().contains("permissions violation") {
        let prefix = &options.prefix;
        return Error::new(
            Code::BackendRefused,
            format!(
                "NATS at {place}: {complaint}. The user must be allowed to publish to $JS.API.>, \
                 {prefix}.> and to subscribe to _INBOX.> and {prefix}.*.wake"
            ),
        );
    }
    Error::unavailable(format!("NATS at {place}: {complaint}"))
}

/// Nobody takes requests for JetStream or for the stream.
pub(super) fn nobody(options: &NatsOptions) -> Error {
    let place = options.address();
    Error::unavailable(format!(
        "NATS at {place}: JetStream does not answer: it is not enabled there, or the cluster has no \
         leader for the stream at the moment"
    ))
}

/// A request could not be sent.
pub(super) fn sending(options: &NatsOptions, error: &async_nats::RequestError) -> Error {
    Error::unavailable(format!("NATS at {}: {error}", options.address()))
}

/// The answer is none that we know.
pub(super) fn strange(options: &NatsOptions, what: &str, payload: &[u8]) -> Error {
    let start: String = String::from_utf8_lossy(payload).chars().take(80).collect();
    let place = options.address();
    Error::unavailable(format!("NATS at {place} answered {what} with {start:?}, which is strange"))
}

/// An error that JetStream answered. Everything that is not a refusal is unknown: neither won nor
/// lost.
pub(super) fn told(options: &NatsOptions, error: &ApiError) -> Error {
    let (place, prefix) = (options.address(), &options.prefix);
    let why = &error.description;
    let refused = |text: String| Error::new(Code::BackendRefused, text);
    match error.err_code {
        10039 | 10076 => refused(format!(
            "NATS at {place}: {why}. The store needs JetStream: start the server with -js, or \
             enable it for the account"
        )),
        10065 => refused(format!(
            "NATS at {place}: {why}: another stream keeps subjects that begin with {prefix:?}; \
             choose another prefix"
        )),
        10074 | 10005 => refused(format!(
            "NATS at {place}: {why}: it cannot keep {} replicas of the stream; choose fewer",
            options.replicas.unwrap_or(1)
        )),
        10060 => refused(format!(
            "NATS at {place}: {why}: another stream than {prefix:?} keeps our subjects; choose \
             another prefix"
        )),
        10059 => Error::unavailable(format!(
            "NATS at {place}: the stream {prefix:?} is gone; a scheduler that starts makes it anew, \
             without what it knew"
        )),
        10047 | 10023 | 10077 => Error::unavailable(format!(
            "NATS at {place} is full and takes no writes: {why}; give JetStream more storage"
        )),
        code => Error::unavailable(format!("NATS at {place}: {why} ({code})")),
    }
}
