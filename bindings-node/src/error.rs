//! Errors across the border: ours as code and message, the user's as the object it is.

use std::any::Any;
use std::sync::Arc;

use anarchon::error::{Error, HostError};
use napi::Status;
use napi::bindgen_prelude::{ToNapiValue, Unknown};
use napi::sys;

/// An error on its way to JavaScript.
pub enum Fault {
    /// One of ours; `ts/errors.ts` builds the object.
    Coded(&'static str, String),
    /// What the user's code threw.
    Thrown(napi::Error),
    /// A mistake in the library itself.
    Bug(String),
}

impl Fault {
    /// The code of an error of ours; empty if the object travels with it.
    pub fn code(&self) -> &'static str {
        match self {
            Fault::Coded(code, _) => code,
            Fault::Thrown(_) | Fault::Bug(_) => "",
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Coded { code, message } => Fault::Coded(code.as_str(), message),
            Error::Host(host) => match host.object.downcast_ref::<napi::Error>() {
                Some(thrown) => thrown
                    .try_clone()
                    .map_or_else(|_| Fault::Bug(host.message.clone()), Fault::Thrown),
                None => Fault::Bug(host.message),
            },
        }
    }
}

impl ToNapiValue for Fault {
    unsafe fn to_napi_value(env: sys::napi_env, fault: Fault) -> napi::Result<sys::napi_value> {
        // SAFETY: called by napi on the thread of `env`, as for every other value.
        unsafe {
            match fault {
                Fault::Coded(_, message) => String::to_napi_value(env, message),
                Fault::Thrown(thrown) => napi::Error::to_napi_value(env, thrown),
                Fault::Bug(message) => napi::Error::to_napi_value(
                    env,
                    napi::Error::new(Status::GenericFailure, message),
                ),
            }
        }
    }
}

/// Keeps a thrown value, of whatever type, with what is to be said of it.
pub fn host_error(
    thrown: Unknown<'_>,
    name: String,
    message: String,
    stack: Option<String>,
) -> HostError {
    let object = Arc::new(napi::Error::from_unknown_without_coercion(thrown));
    HostError { object, name, message, stack }
}

/// An error of ours, to be thrown by the call itself: its code is the JavaScript error's `code`.
pub fn throw(error: Error) -> napi::Error<String> {
    match Fault::from(error) {
        Fault::Coded(code, message) => napi::Error::new(code.to_owned(), message),
        Fault::Thrown(thrown) => napi::Error::new(String::new(), thrown.reason.clone()),
        Fault::Bug(message) => napi::Error::new(String::new(), message),
    }
}

/// What a panic said, as the message of the error that the user gets.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    format!("anarchon panicked, which is a mistake in the library: {said}; please report it")
}
