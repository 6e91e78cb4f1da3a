//! The tokio runtimes of the process, and the port: one message bridge per JavaScript thread.
//!
//! tokio threads post messages; the JavaScript thread handles them in order, many per wake-up. The
//! thread-safe function behind it is weak: it never keeps the process alive, the timer in
//! `ts/port.ts` does that while it is wanted.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use anarchon::backend::contract::Backend;
use anarchon::clock::{Activity, ActivityGuard};
use anarchon::error::{Code, Error, HostError};
use anarchon::host::object::HostBody;
use anarchon::scheduler::{JobContext, Scheduler};
use futures_util::{FutureExt, poll};
use napi::bindgen_prelude::{FnArgs, Function, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Fault, host_error, panic_text};
use crate::object::JsObject;

/// What a message is about; the same numbers stand in `ts/port.ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// The promise `id` is settled: with `text`, or with a fault.
    Settle = 0,
    /// The scheduler `target` tells `text`, an event.
    Event = 1,
    /// The scheduler `target` is to enter the handler of `text`, a context, as the run `id`.
    Run = 2,
    /// The run `id` is to end; the fault says why.
    Cancel = 3,
    /// The member and arguments in `text` are to be called on the object `target`, as the call `id`.
    Call = 4,
    /// The handler `id` of the scheduler `target` will never be entered again.
    Release = 5,
}

/// One message to the JavaScript thread.
pub struct Message {
    pub kind: Kind,
    pub id: u32,
    pub target: u32,
    pub text: Option<String>,
    pub fault: Option<Fault>,
    /// A manual clock waits until the message has been handled.
    pub busy: Option<ActivityGuard>,
}

/// How the JavaScript side answered: with JSON text, with nothing, or with what it threw.
pub type Answer = Result<Option<String>, HostError>;

/// The arguments of `onMessage` in `ts/port.ts`.
type Arguments = FnArgs<(u32, u32, u32, Option<String>, Option<String>, Option<Fault>)>;
type OnMessage = ThreadsafeFunction<Message, (), Arguments, Status, false, true>;

/// The bridge of one JavaScript thread.
pub struct Port {
    on_message: OnMessage,
    closed: AtomicBool,
    next_id: AtomicU32,
    open: Mutex<Open>,
}

/// What is under way.
#[derive(Default)]
struct Open {
    answers: HashMap<u32, oneshot::Sender<Answer>>,
    runs: HashMap<u32, Arc<JobContext>>,
    asks: HashMap<u32, CancellationToken>,
    schedulers: HashMap<u32, Scheduler>,
    bodies: HashMap<u32, HostBody>,
    offers: HashMap<u32, Arc<dyn Backend>>,
}

impl Port {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a message; false if the JavaScript thread is gone.
    pub fn post(&self, message: Message) -> bool {
        if self.closed.load(Ordering::SeqCst) {
            return false;
        }
        self.on_message.call(message, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
    }

    /// Opens a call or run that JavaScript will answer; it is forgotten when the guard is dropped.
    pub fn expect_answer(
        self: &Arc<Port>,
        run: Option<Arc<JobContext>>,
    ) -> (Expected, oneshot::Receiver<Answer>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open();
        open.answers.insert(id, sender);
        if let Some(run) = run {
            open.runs.insert(id, run);
        }
        (Expected { port: self.clone(), id }, receiver)
    }

    fn answer(&self, id: u32, answer: Answer) {
        let sender = self.open().answers.remove(&id);
        if let Some(sender) = sender {
            // Nobody listens any more if the call was given up.
            let _given_up = sender.send(answer);
        }
    }

    fn run(&self, id: u32) -> Option<Arc<JobContext>> {
        self.open().runs.get(&id).cloned()
    }

    /// A token by which JavaScript can give up the promise `ask`.
    pub fn cancellable(&self, ask: u32) -> CancellationToken {
        let token = CancellationToken::new();
        self.open().asks.insert(ask, token.clone());
        token
    }

    /// Gives up the promise `ask`.
    pub fn give_up(&self, ask: u32) {
        let token = self.open().asks.remove(&ask);
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Keeps what a transaction runs as long as the call `id` is expected.
    pub fn keep_body(&self, id: u32, body: HostBody) {
        self.open().bodies.insert(id, body);
    }

    /// Takes a backend that JavaScript opened for the core.
    pub fn offered(&self, id: u32) -> Option<Arc<dyn Backend>> {
        self.open().offers.remove(&id)
    }

    /// Hands a backend to whoever gets the number.
    pub fn offer(&self, backend: Arc<dyn Backend>) -> u32 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.open().offers.insert(id, backend);
        id
    }

    /// Remembers a scheduler that has to be cut off when the JavaScript thread ends.
    pub fn adopt(&self, id: u32, scheduler: Scheduler) {
        self.open().schedulers.insert(id, scheduler);
    }

    /// Forgets a scheduler that is stopped.
    pub fn disown(&self, id: u32) {
        let _dropped_outside_the_lock = self.open().schedulers.remove(&id);
    }

    /// Runs `work` on the runtime and settles the promise `ask` with its result; a panic rejects it.
    pub fn ask<F>(self: &Arc<Port>, ask: u32, runtime: &Handle, activity: Option<Activity>, work: F)
    where
        F: Future<Output = anarchon::Result<Option<String>>> + Send + 'static,
    {
        let port = self.clone();
        // A manual clock waits until the work has begun: from there on the core counts.
        let begins = activity.as_ref().map(Activity::begin);
        runtime.spawn(async move {
            let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
            let begun = poll!(&mut work);
            drop(begins);
            let outcome = match begun {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => work.await,
            };
            let busy = activity.as_ref().map(Activity::begin);
            let (text, fault) = match outcome {
                Ok(Ok(text)) => (text, None),
                Ok(Err(error)) => (None, Some(Fault::from(error))),
                Err(panic) => (None, Some(Fault::Bug(panic_text(&*panic)))),
            };
            port.settle(ask, text, fault, busy);
        });
    }

    /// Settles the promise `ask`.
    pub fn settle(
        &self,
        ask: u32,
        text: Option<String>,
        fault: Option<Fault>,
        busy: Option<ActivityGuard>,
    ) {
        self.open().asks.remove(&ask);
        self.post(Message { kind: Kind::Settle, id: ask, target: 0, text, fault, busy });
    }

    /// Ends everything that hangs on the JavaScript thread.
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let open = std::mem::take(&mut *self.open());
        for scheduler in open.schedulers.values() {
            scheduler.abort();
        }
        for token in open.asks.values() {
            token.cancel();
        }
    }
}

/// Something that JavaScript will answer under this number.
pub struct Expected {
    port: Arc<Port>,
    pub id: u32,
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut open = self.port.open();
        let answer = open.answers.remove(&self.id);
        let run = open.runs.remove(&self.id);
        let body = open.bodies.remove(&self.id);
        // Whatever these drop may come back here: not under the lock.
        drop(open);
        drop((answer, run, body));
    }
}

/// What is answered when the JavaScript thread has ended.
pub fn thread_gone() -> Error {
    Error::new(
        Code::Stopped,
        "the JavaScript thread that the scheduler belongs to has ended; nothing can run there",
    )
}

/// The two worker threads that all schedulers of the process share.
pub fn shared() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    handle(&RUNTIME, 2, "anarchon")
}

/// One worker thread for what runs on a manual clock: with a single queue the order of tasks does
/// not depend on the machine's load.
pub fn stepped() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    handle(&RUNTIME, 1, "anarchon-stepped")
}

fn handle(runtime: &'static OnceLock<Runtime>, threads: usize, name: &str) -> Handle {
    let runtime = runtime.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .enable_all()
            .build()
            .expect("the operating system gives threads")
    });
    runtime.handle().clone()
}

/// The port as `ts/port.ts` sees it.
#[napi]
pub struct NativePort {
    pub(crate) port: Arc<Port>,
}

#[napi]
impl NativePort {
    /// Opens the port of this thread. `on_message` must not throw.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, on_message: Function<'_, Arguments, ()>) -> napi::Result<NativePort> {
        let on_message = on_message
            .build_threadsafe_function::<Message>()
            .weak::<true>()
            .callee_handled::<false>()
            .build_callback(|call| {
                let Message { kind, id, target, text, fault, busy } = call.value;
                let code = fault.as_ref().map(|fault| fault.code().to_owned());
                // The clock is moved on this very thread: it cannot move before the call is over.
                drop(busy);
                Ok(FnArgs { data: (kind as u32, id, target, text, code, fault) })
            })?;
        let port = Arc::new(Port {
            on_message,
            closed: AtomicBool::new(false),
            next_id: AtomicU32::new(1),
            open: Mutex::default(),
        });
        env.add_env_cleanup_hook(port.clone(), |port| port.close())?;
        Ok(NativePort { port })
    }

    /// The call or run `id` has returned; the value as JSON text.
    #[napi(catch_unwind)]
    pub fn complete(&self, id: u32, text: Option<String>) {
        self.port.answer(id, Ok(text));
    }

    /// The call or run `id` has thrown.
    #[napi(catch_unwind)]
    pub fn fail(
        &self,
        id: u32,
        thrown: Unknown<'_>,
        name: String,
        message: String,
        stack: Option<String>,
    ) {
        self.port.answer(id, Err(host_error(thrown, name, message, stack)));
    }

    /// The handler of the run `id` is being entered.
    #[napi(catch_unwind)]
    pub fn entered(&self, id: u32) {
        if let Some(context) = self.port.run(id) {
            context.entered();
        }
    }

    /// Runs what the transaction `body` is about on the object `target`, and settles `ask`.
    #[napi(catch_unwind)]
    pub fn run_body(&self, ask: u32, body: u32, target: u32, class: String, members: Vec<String>) {
        let run = self.port.open().bodies.get(&body).cloned();
        let object = JsObject::new(self.port.clone(), target, class, members);
        self.port.ask(ask, &shared(), None, async move {
            let Some(run) = run else {
                return Err(Error::unavailable(
                    "the transaction was given up: it did not begin within its deadline",
                ));
            };
            run(Arc::new(object)).await.map(|()| None)
        });
    }

    /// Gives up the promise `ask`.
    #[napi(catch_unwind)]
    pub fn give_up(&self, ask: u32) {
        self.port.give_up(ask);
    }
}
