//! The requests of JetStream that the store uses, and their answers.

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure;
use super::link::Link;
use super::options::NatsOptions;
use super::subjects;
use crate::error::{Error, Result};

/// An error as JetStream answers it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

/// A message as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) seq: u64,
    pub(super) data: Vec<u8>,
    /// When it was stored, by the server's clock (ms).
    pub(super) at_ms: i64,
}

/// What became of a message that may only follow its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// It is kept under this number.
    As(u64),
    /// Another one came before it.
    Behind,
}

/// What is said of a stream.
pub(super) struct StreamInfo {
    pub(super) config: Value,
    /// The server's clock (ms); servers before 2.10 do not tell it.
    pub(super) ts: Option<i64>,
}

#[derive(Deserialize)]
struct Got {
    message: Option<RawMessage>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct Acknowledged {
    #[serde(default)]
    seq: u64,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct Informed {
    #[serde(default)]
    config: Value,
    ts: Option<String>,
    error: Option<ApiError>,
}

/// The requests, over one connection.
pub(super) struct Api<'a> {
    pub(super) link: &'a Link,
    pub(super) options: &'a NatsOptions,
}

impl Api<'_> {
    fn subject(&self, operation: &str) -> String {
        let stream = &self.options.prefix;
        match &self.options.domain {
            Some(domain) => format!("$JS.{domain}.API.STREAM.{operation}.{stream}"),
            None => format!("$JS.API.STREAM.{operation}.{stream}"),
        }
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&self, operation: &str, body: &Value) -> Result<T> {
        let payload = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let message = self.link.request(self.subject(operation), None, payload).await?;
        serde_json::from_slice(&message.payload)
            .map_err(|_| failure::strange(self.options, operation, &message.payload))
    }

    fn told(&self, error: &ApiError) -> Error {
        failure::told(self.options, error)
    }

    async fn get(&self, body: Value) -> Result<Option<Kept>> {
        let got: Got = self.ask("MSG.GET", &body).await?;
        match (got.message, got.error) {
            (_, Some(error)) if error.err_code == failure::NO_MESSAGE => Ok(None),
            (_, Some(error)) => Err(self.told(&error)),
            (Some(raw), None) => {
                let at = i64::try_from(raw.time.unix_timestamp_nanos() / 1_000_000);
                let message = StreamMessage::try_from(raw)
                    .map_err(|_| failure::strange(self.options, "MSG.GET", b"a message"))?;
                let (seq, data) = (message.sequence, message.payload.to_vec());
                Ok(Some(Kept { seq, data, at_ms: at.unwrap_or_default() }))
            }
            (None, None) => Err(failure::strange(self.options, "MSG.GET", b"nothing")),
        }
    }

    /// The last message of a subject, as the leader of the stream has it.
    pub(super) async fn last(&self, subject: &str) -> Result<Option<Kept>> {
        self.get(json!({ "last_by_subj": subject })).await
    }

    /// Messages by their numbers, each `None` if it is not kept any more.
    pub(super) async fn messages(&self, numbers: &[u64]) -> Result<Vec<Option<Kept>>> {
        let mut found = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(64) {
            let gets = some.iter().map(|seq| self.get(json!({ "seq": seq })));
            for got in join_all(gets).await {
                found.push(got?);
            }
        }
        Ok(found)
    }

    /// Publishes a message; with `after`, only if that is the number of the last one of its
    /// subject (0: if there is none).
    pub(super) async fn publish(
        &self,
        subject: String,
        payload: Vec<u8>,
        after: Option<u64>,
    ) -> Result<Published> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Stream", self.options.prefix.as_str());
        if let Some(after) = after {
            headers.insert("Nats-Expected-Last-Subject-Sequence", after.to_string().as_str());
        }
        let message = self.link.request(subject, Some(headers), payload).await?;
        let answer: Acknowledged = serde_json::from_slice(&message.payload)
            .map_err(|_| failure::strange(self.options, "a publish", &message.payload))?;
        match answer.error {
            None if answer.seq > 0 => Ok(Published::As(answer.seq)),
            None => Err(failure::strange(self.options, "a publish", &message.payload)),
            Some(error) if after.is_some() && failure::is_behind(&error) => Ok(Published::Behind),
            Some(error) => Err(self.told(&error)),
        }
    }

    /// The stream as it is set up; `None` if there is none.
    pub(super) async fn stream(&self) -> Result<Option<StreamInfo>> {
        let informed: Informed = self.ask("INFO", &Value::Null).await?;
        match informed.error {
            None => {
                let ts = informed.ts.and_then(|ts| ts.parse::<jiff::Timestamp>().ok());
                let ts = ts.map(jiff::Timestamp::as_millisecond);
                Ok(Some(StreamInfo { config: informed.config, ts }))
            }
            Some(error) if error.err_code == failure::NO_STREAM => Ok(None),
            Some(error) => Err(self.told(&error)),
        }
    }

    /// Makes the stream. One that others made at the same time is as good.
    pub(super) async fn make_stream(&self) -> Result<()> {
        let options = self.options;
        let config = json!({
            "name": options.prefix,
            "description": "the state of jobs of anarchon; one message per subject, no limits",
            "subjects": subjects::of_stream(&options.prefix),
            "retention": "limits",
            "discard": "old",
            "storage": if options.allow_memory { "memory" } else { "file" },
            "num_replicas": options.replicas.unwrap_or(1),
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_consumers": -1,
            "max_msg_size": -1,
        });
        let made: Informed = self.ask("CREATE", &config).await?;
        match made.error {
            None => Ok(()),
            Some(error) if error.err_code == failure::OTHER_STREAM => Ok(()),
            Some(error) => Err(self.told(&error)),
        }
    }

    /// Removes messages by their numbers. Nobody waits for it; it is done before what is sent next.
    pub(super) async fn remove(&self, numbers: &[u64]) {
        for seq in numbers {
            let body = json!({ "seq": seq, "no_erase": true }).to_string().into_bytes();
            let reply = subjects::of_nobody(&self.options.prefix);
            self.link.send(self.subject("MSG.DELETE"), body, reply).await;
        }
    }

    /// Removes all messages of subjects.
    pub(super) async fn purge(&self, filter: &str) -> Result<()> {
        let done: Acknowledged = self.ask("PURGE", &json!({ "filter": filter })).await?;
        done.error.map_or(Ok(()), |error| Err(self.told(&error)))
    }
}
