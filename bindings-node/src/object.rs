//! A JavaScript object whose methods the core calls: a user's backend, run store or SQL client.

use std::collections::HashSet;
use std::sync::Arc;

use anarchon::error::{Error, Result};
use serde_json::{Value, json};

use crate::runtime::{Kind, Message, Port, thread_gone};

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

    /// The class name, for messages.
    pub fn describe(&self) -> String {
        self.class.clone()
    }

    /// Whether the object had this method when it was handed over.
    pub fn has(&self, member: &str) -> bool {
        self.members.contains(member)
    }

    /// Calls a method and awaits what it returns. An error that it throws comes back as the object
    /// it is.
    pub async fn call(&self, member: &str, arguments: Vec<Value>) -> Result<Value> {
        let (expected, answer) = self.port.expect_answer(None);
        let posted = self.port.post(Message {
            kind: Kind::Call,
            id: expected.id,
            target: self.target,
            text: Some(json!([member, arguments]).to_string()),
            fault: None,
            busy: None,
        });
        if !posted {
            return Err(thread_gone());
        }
        match answer.await {
            Err(_) => Err(thread_gone()),
            Ok(Err(thrown)) => Err(Error::Host(thrown)),
            Ok(Ok(None)) => Ok(Value::Null),
            Ok(Ok(Some(text))) => serde_json::from_str(&text)
                .map_err(|error| Error::unavailable(format!("{}.{member}: {error}", self.class))),
        }
    }
}
