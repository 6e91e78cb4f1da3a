//! What a handler gets, and how it answers.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::clock::{ActivityGuard, Clock, sleep_for};
use crate::error::Error;
use crate::events::Trigger;

/// The user's function, in whatever language.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Runs once. The context must be told when the function has really been entered
    /// ([`JobContext::entered`]).
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd;
}

/// An async function is a handler: it counts as entered when it is first polled.
#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Arc<JobContext>) -> R + Send + Sync,
    R: Future<Output = HandlerEnd> + Send,
{
    async fn run(&self, context: Arc<JobContext>) -> HandlerEnd {
        context.entered();
        self(context).await
    }
}

/// How a handler ended.
#[derive(Clone, Debug)]
pub enum HandlerEnd {
    /// It returned; the value as JSON text, if it has one.
    Returned(Option<String>),
    /// It threw.
    Threw(Error),
}

/// Everything a handler may know about its run.
pub struct JobContext {
    /// The job's name.
    pub job: String,
    /// The instant the run stands for (ms since the Unix epoch).
    pub slot: i64,
    /// The zone of the job.
    pub timezone: String,
    /// Who runs it.
    pub instance_id: String,
    /// Grants of this run: above 1 it has been taken over.
    pub attempt: i64,
    /// Tries by this holder before this one, from 0.
    pub retry: i64,
    /// Grows with every grant of the job: a downstream store that remembers the greatest one can
    /// refuse a zombie. 0 on a store without leases.
    pub fence: i64,
    /// The holder's token.
    pub token: String,
    /// What started it.
    pub trigger: Trigger,
    /// Whether and why the run is to end.
    pub cancellation: Cancellation,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entering: Mutex<Option<Entering>>,
}

/// What happens when the handler has been entered.
pub(crate) struct Entering {
    pub(crate) busy: Option<ActivityGuard>,
    pub(crate) notify: Box<dyn FnOnce() + Send>,
}

impl JobContext {
    /// Asked for by hand.
    pub fn manual(&self) -> bool {
        self.trigger == Trigger::Manual
    }

    /// To be called when the user's function has been entered; a repeat does nothing.
    pub fn entered(&self) {
        let entering = self.entering.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Entering { busy, notify }) = entering {
            notify();
            drop(busy);
        }
    }

    /// Sleeps on the scheduler's clock (ms); returns early when the run is cancelled.
    pub async fn sleep(&self, ms: i64) {
        tokio::select! {
            biased;
            () = self.cancellation.cancelled() => {}
            () = sleep_for(&*self.clock, ms) => {}
        }
    }
}

/// The signal that a run is to end, with its reason.
#[derive(Clone, Default)]
pub struct Cancellation {
    token: CancellationToken,
    reason: Arc<OnceLock<Error>>,
}

impl Cancellation {
    /// Cancels with a reason; the first one stands.
    pub fn cancel(&self, reason: Error) {
        let _first_stands = self.reason.set(reason);
        self.token.cancel();
    }

    /// Whether the run is to end.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Why: an error with the code `TIMEOUT`, `LEASE_LOST`, `STOPPED` or `CANCELLED`.
    pub fn reason(&self) -> Option<Error> {
        self.reason.get().cloned()
    }

    /// Waits until the run is to end.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}
