//! The native half of `anarchon/testing`.

use std::sync::Arc;

use anarchon::clock::Clock;
use anarchon::error::{Error, Result};
use anarchon::host::object::HostObject;
use anarchon::testing::ManualClock;
use anarchon::testing::conformance::{self, CheckOptions, Opening};
use napi_derive::napi;
use serde_json::{Value, json};

use crate::error::throw;
use crate::object::JsObject;
use crate::runtime::{NativePort, shared, stepped, thread_gone};
use crate::value::{parse_object, whole};

/// A clock that moves when `ts/testing.ts` tells it to.
#[napi]
pub struct NativeClock {
    pub(crate) clock: ManualClock,
}

#[napi]
impl NativeClock {
    /// A clock that shows `wall_ms`.
    #[napi(constructor, catch_unwind)]
    pub fn new(wall_ms: Option<f64>) -> napi::Result<NativeClock, String> {
        let clock = match wall_ms {
            None => ManualClock::default(),
            Some(ms) => ManualClock::new(whole("start", ms, 0).map_err(throw)?),
        };
        Ok(NativeClock { clock })
    }

    /// What the clock shows (ms since the Unix epoch).
    #[napi(catch_unwind)]
    pub fn wall_ms(&self) -> f64 {
        number(self.clock.wall_ms())
    }

    /// How far it has moved (ms).
    #[napi(catch_unwind)]
    pub fn mono_ms(&self) -> f64 {
        number(self.clock.mono_ms())
    }

    /// Settles `ask` when nothing is going on in the core.
    #[napi(catch_unwind)]
    pub fn settle(&self, port: &NativePort, ask: u32) {
        let clock = self.clock.clone();
        port.port.ask(ask, &stepped(), None, async move {
            clock.settle().await;
            Ok(None)
        });
    }

    /// Moves to the next due time not after `target` and wakes one sleeper; false if there is none.
    #[napi(catch_unwind)]
    pub fn step(&self, target: f64) -> napi::Result<bool, String> {
        let target = whole("target", target, 0).map_err(throw)?;
        Ok(self.clock.step(target))
    }

    /// Steps the wall clock alone.
    #[napi(catch_unwind)]
    pub fn step_wall(&self, ms: f64) -> napi::Result<(), String> {
        self.clock.step_wall(whole("ms", ms, i64::MIN).map_err(throw)?);
        Ok(())
    }

    /// Whether nothing is going on in the core.
    #[napi(catch_unwind)]
    pub fn is_idle(&self) -> bool {
        self.clock.activity().is_none_or(anarchon::clock::Activity::is_idle)
    }
}

/// Holds the store whose clients the target `target` opens against the contract; settles `ask` with
/// the report.
#[napi(catch_unwind)]
pub fn check_backend(
    port: &NativePort,
    ask: u32,
    target: u32,
    options: String,
) -> napi::Result<(), String> {
    let options = check_options(&options).map_err(throw)?;
    let port = port.port.clone();
    let opener = JsObject::new(port.clone(), target, "checkBackend".to_owned(), Vec::new());
    let opener = Arc::new(opener);
    let asking = port.clone();
    port.ask(ask, &shared(), None, async move {
        let open = move || -> Opening {
            let (port, opener) = (asking.clone(), opener.clone());
            Box::pin(async move {
                let id = opener.call("open", Vec::new(), Vec::new()).await?;
                let offered = id.as_u64().and_then(|id| u32::try_from(id).ok());
                offered.and_then(|id| port.offered(id)).ok_or_else(thread_gone)
            })
        };
        let report = conformance::check_backend(open, &options).await;
        let passed = report.is_passed();
        Ok(Some(
            json!({ "passed": passed, "text": report.to_string(), "report": report }).to_string(),
        ))
    });
    Ok(())
}

fn check_options(text: &str) -> Result<CheckOptions> {
    let given = parse_object("options", text)?;
    let mut options = CheckOptions::default();
    for (name, value) in given {
        let count = |least: i64| {
            let number = value.as_f64().ok_or_else(|| {
                Error::option(format!("{name} is {value}; allowed is a whole number"))
            })?;
            whole(&name, number, least)
        };
        let size = |least| count(least).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        match name.as_str() {
            "clients" => options.clients = size(2)?,
            "rounds" => options.rounds = size(1)?,
            "histories" => options.histories = size(0)?,
            "steps" => options.steps = size(1)?,
            "seed" => options.seed = count(0)?.unsigned_abs(),
            "caseTimeoutMs" => options.case_timeout_ms = count(1)?,
            "complete" => options.complete = value.as_bool().unwrap_or(false),
            // `ts/testing.ts` has refused every other name.
            _ => {
                let words = value.as_array().cloned().unwrap_or_default();
                options.only = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            }
        }
    }
    Ok(options)
}

/// The names of all cases of the suite, in order.
#[napi(catch_unwind)]
pub fn case_names() -> Vec<String> {
    conformance::case_names().into_iter().map(str::to_owned).collect()
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ms")]
pub fn number(ms: i64) -> f64 {
    ms as f64
}
