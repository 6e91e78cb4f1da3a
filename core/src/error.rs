//! The one error type of the crate, with a stable code for every refusal.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Everything that returns a result in this crate returns this one.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a word that programs may compare.
///
/// The text of a code ([`Code::as_str`]) is the same in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A schedule that cannot be read, or that never has a slot.
    InvalidSchedule,
    /// An option, name, path or URL that is not allowed.
    InvalidOption,
    /// A second job of the same name in one scheduler.
    DuplicateJob,
    /// No job of this name is registered.
    UnknownJob,
    /// `jitterMs + maxLateMs` is not shorter than the store's memory.
    DedupeWindowTooShort,
    /// An option that needs leases, on a backend without them.
    LeasesRequired,
    /// Another run of the job is unfinished.
    Overlap,
    /// The run was lost to another replica, or its lease could not be kept.
    LeaseLost,
    /// A try took longer than `timeoutMs`.
    Timeout,
    /// The run was cancelled by a person or a program.
    Cancelled,
    /// No backend was named where the embedded default would be wrong.
    BackendRequired,
    /// The store does not answer: nothing is known about what was asked.
    BackendUnavailable,
    /// The store answered, and what it is or how it is set up breaks the promise.
    BackendRefused,
    /// The store was written by a newer major version of the library.
    SchemaTooNew,
    /// A started scheduler was used in a child process.
    Forked,
    /// The scheduler is stopped or stopping.
    Stopped,
}

impl Code {
    /// All codes, in the order of the documentation.
    pub const ALL: [Code; 16] = [
        Code::InvalidSchedule,
        Code::InvalidOption,
        Code::DuplicateJob,
        Code::UnknownJob,
        Code::DedupeWindowTooShort,
        Code::LeasesRequired,
        Code::Overlap,
        Code::LeaseLost,
        Code::Timeout,
        Code::Cancelled,
        Code::BackendRequired,
        Code::BackendUnavailable,
        Code::BackendRefused,
        Code::SchemaTooNew,
        Code::Forked,
        Code::Stopped,
    ];

    /// The code as users see it, the same bytes in every language.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::InvalidSchedule => "INVALID_SCHEDULE",
            Code::InvalidOption => "INVALID_OPTION",
            Code::DuplicateJob => "DUPLICATE_JOB",
            Code::UnknownJob => "UNKNOWN_JOB",
            Code::DedupeWindowTooShort => "DEDUPE_WINDOW_TOO_SHORT",
            Code::LeasesRequired => "LEASES_REQUIRED",
            Code::Overlap => "OVERLAP",
            Code::LeaseLost => "LEASE_LOST",
            Code::Timeout => "TIMEOUT",
            Code::Cancelled => "CANCELLED",
            Code::BackendRequired => "BACKEND_REQUIRED",
            Code::BackendUnavailable => "BACKEND_UNAVAILABLE",
            Code::BackendRefused => "BACKEND_REFUSED",
            Code::SchemaTooNew => "SCHEMA_TOO_NEW",
            Code::Forked => "FORKED",
            Code::Stopped => "STOPPED",
        }
    }
}

/// An error thrown by the user's own code, kept as the object it is.
///
/// The core never looks inside: the binding that put the object in takes the same object out again.
#[derive(Clone)]
pub struct HostError {
    /// The thrown object, opaque to the core.
    pub object: Arc<dyn Any + Send + Sync>,
    /// The class of the thrown object, for records and logs.
    pub name: String,
    /// What it says, for records and logs.
    pub message: String,
    /// Where it was thrown, if the language tells.
    pub stack: Option<String>,
}

/// An error of the scheduler or of a store.
#[derive(Clone)]
pub enum Error {
    /// An error of ours, with a stable code.
    Coded {
        /// The stable code.
        code: Code,
        /// What was given, what is allowed, what to do.
        message: String,
    },
    /// An error of the user's code, passed on as it is.
    Host(HostError),
}

impl Error {
    /// An error of ours.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error::Coded { code, message: message.into() }
    }

    /// The store did not answer: the outcome of the call is unknown.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(Code::BackendUnavailable, message)
    }

    /// An option that is not allowed.
    pub fn option(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidOption, message)
    }

    /// A schedule that is not allowed.
    pub fn schedule(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidSchedule, message)
    }

    /// The code, if the error is ours.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Coded { code, .. } => Some(*code),
            Error::Host(_) => None,
        }
    }

    /// The text of the error without its code.
    pub fn message(&self) -> &str {
        match self {
            Error::Coded { message, .. } => message,
            Error::Host(host) => &host.message,
        }
    }

    /// The same error with a sentence in front, saying where it came from.
    ///
    /// An error of the user's code stays exactly as it is.
    pub fn in_context(self, context: &str) -> Error {
        match self {
            Error::Coded { code, message } => {
                Error::Coded { code, message: format!("{context}: {message}") }
            }
            host => host,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Coded { code, message } => write!(f, "{}: {message}", code.as_str()),
            Error::Host(host) => write!(f, "{}: {}", host.name, host.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
