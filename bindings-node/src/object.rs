//! A JavaScript object whose methods the core calls: a user's backend, run store or SQL client.

use std::collections::HashSet;
use std::sync::Arc;

use anarchon::error::{Error, Result};
use anarchon::host::object::{HostBody, HostObject};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::runtime::{Answer, Expected, Kind, Message, Port, thread_gone};

/// An object on a JavaScript thread, known there under a number.
pub struct JsObject {
    port: Arc<Port>,
    target: u32,
    class: String,
    members: HashSet<String>,
}

impl JsObject {
    /// The object with the number `target`, of the class `class`, with these methods.
    pub fn new(port: Arc<Port>, target: u32, class: String, members: Vec<String>) -> JsObject {
        JsObject { port, target, class, members: members.into_iter().collect() }
    }

    fn post(&self, expected: &Expected, call: &Value) -> Result<()> {
        let message = Message {
            kind: Kind::Call,
            id: expected.id,
            target: self.target,
            text: Some(call.to_string()),
            fault: None,
            busy: None,
        };
        if self.port.post(message) { Ok(()) } else { Err(thread_gone()) }
    }

    fn read(
        &self,
        member: &str,
        answer: std::result::Result<Answer, tokio::sync::oneshot::error::RecvError>,
    ) -> Result<Value> {
        match answer {
            Err(_) => Err(thread_gone()),
            Ok(Err(thrown)) => Err(Error::Host(thrown)),
            Ok(Ok(None)) => Ok(Value::Null),
            Ok(Ok(Some(text))) => serde_json::from_str(&text)
                .map_err(|error| Error::unavailable(format!("{}.{member}(): {error}", self.class))),
        }
    }
}

#[async_trait]
impl HostObject for JsObject {
    fn describe(&self) -> String {
        self.class.clone()
    }

    fn has(&self, member: &str) -> bool {
        self.members.contains(member)
    }

    /// A JavaScript function takes whatever it is given.
    fn takes(&self, _member: &str, _argument: &str) -> bool {
        true
    }

    async fn call(
        &self,
        member: &str,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Result<Value> {
        let mut arguments = positional;
        arguments.extend(named.into_iter().map(|(_, value)| value));
        let (expected, answer) = self.port.expect_answer(None);
        self.post(&expected, &json!([member, arguments]))?;
        self.read(member, answer.await)
    }

    async fn transaction(&self, body: HostBody) -> Result<()> {
        let (expected, answer) = self.port.expect_answer(None);
        // The driver may run the body again, until its `transaction` has answered.
        self.port.keep_body(expected.id, body);
        self.post(&expected, &json!(["transaction", [expected.id]]))?;
        self.read("transaction", answer.await).map(|_answer| ())
    }
}
