//! What a process has once: the tokio runtime and the door that closes at the interpreter's exit;
//! and what an event loop has once: the bridge over which the core talks to it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anarchon::clock::{ActivityGuard, Clock, busy};
use anarchon::error::{Code, Error, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::{Py, PyAny, PyResult, Python};
use pyo3::{IntoPyObjectExt, pyclass, pyfunction, pymethods};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::error::to_object;
use crate::object::{CallState, HostCall};
use crate::scheduler::{Run, RunState};

// ---- the runtime of the process ----

struct ProcessRuntime {
    pid: u32,
    runtime: Runtime,
}

/// A place for a runtime. A child of `fork` finds its parent's in it, whose threads it does not
/// have, and makes its own; no lock is involved, for a lock may have been held at the fork.
type Place = AtomicPtr<ProcessRuntime>;

static REAL: Place = AtomicPtr::new(std::ptr::null_mut());
static MANUAL: Place = AtomicPtr::new(std::ptr::null_mut());

/// The runtime of this process for what lives by this clock, made at its first use.
///
/// By a manual clock everything happens in one thread: a test sees the same order every time.
pub fn runtime(clock: &dyn Clock) -> PyResult<Handle> {
    let (place, workers) = if clock.is_manual() { (&MANUAL, 1) } else { (&REAL, 2) };
    let pid = std::process::id();
    loop {
        let current = place.load(Ordering::Acquire);
        // SAFETY: what has been stored here is never freed, only leaked: once per process.
        if let Some(found) = unsafe { current.as_ref() }
            && found.pid == pid
        {
            return Ok(found.runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("anarchon")
            .enable_all()
            .build()
            .map_err(|error| PyRuntimeError::new_err(format!("no threads: {error}")))?;
        let fresh = Box::into_raw(Box::new(ProcessRuntime { pid, runtime }));
        if place.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: `fresh` came from a box and has been seen by nobody else.
            unsafe { Box::from_raw(fresh) }.runtime.shutdown_background();
        }
    }
}

// ---- the door at the interpreter's exit ----

static DOOR_CLOSED: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A Python thread that is in our code. CPython ends daemon threads where they next want the GIL;
/// in a frame of ours that would end the process. So the exit waits until nobody is inside.
pub struct Inside;

impl Inside {
    /// Enters, unless the interpreter is ending.
    pub fn enter() -> Option<Inside> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Inside;
        if DOOR_CLOSED.load(Ordering::SeqCst) { None } else { Some(inside) }
    }

    /// Enters, or says that the interpreter is ending.
    pub fn or_raise() -> PyResult<Inside> {
        Inside::enter().ok_or_else(|| PyRuntimeError::new_err("the interpreter is shutting down"))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Called once at exit: nobody comes in any more, who is inside leaves, our threads end.
#[pyfunction]
pub fn close_door(py: Python<'_>) {
    DOOR_CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        // Nobody stays inside for long, for nobody waits there.
        for _ in 0..2_000 {
            if INSIDE.load(Ordering::SeqCst) == 0 {
                break;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the process ends: no clock is left to ask"
            )]
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Called in a child of `fork`: threads that were inside are not there any more.
#[pyfunction]
pub fn after_fork() {
    INSIDE.store(0, Ordering::SeqCst);
}

// ---- the bridge of an event loop ----

/// What the core says to an event loop.
pub enum Message {
    /// A call that Python began has ended: its answer as JSON text.
    Settle { call: u64, answer: Result<Option<String>> },
    /// A handler is to be run.
    Run { scheduler: u64, handler: u64, run: Arc<RunState> },
    /// A run is to end.
    Cancel { scheduler: u64, run: u64 },
    /// No run of this handler will come any more.
    Drop { scheduler: u64, handler: u64 },
    /// Something happened.
    Event { scheduler: u64, name: &'static str, payload: String, error: Option<Error> },
    /// A method of a host object is to be called.
    Ask { host: u64, call: Arc<CallState> },
    /// Nobody waits for that call any more.
    Forget { host: u64, call: u64 },
}

type Fetched = (&'static str, u64, Py<PyAny>, Py<PyAny>);

impl Message {
    /// A message as Python gets it: the word, whom it is for, and two things.
    fn into_python(self, py: Python<'_>) -> PyResult<Fetched> {
        let thrown = |error: Option<Error>| match error {
            Some(error) => to_object(py, &error),
            None => Ok(py.None()),
        };
        Ok(match self {
            Message::Settle { call, answer } => {
                let (answer, error) = match answer {
                    Ok(answer) => (answer, None),
                    Err(error) => (None, Some(error)),
                };
                ("settle", call, answer.into_py_any(py)?, thrown(error)?)
            }
            Message::Run { scheduler, handler, run } => {
                ("run", scheduler, handler.into_py_any(py)?, Run::new(run).into_py_any(py)?)
            }
            Message::Cancel { scheduler, run } => {
                ("cancel", scheduler, run.into_py_any(py)?, py.None())
            }
            Message::Drop { scheduler, handler } => {
                ("drop", scheduler, handler.into_py_any(py)?, py.None())
            }
            Message::Event { scheduler, name, payload, error } => {
                let body = (payload, thrown(error)?).into_py_any(py)?;
                ("event", scheduler, name.into_py_any(py)?, body)
            }
            Message::Ask { host, call } => {
                ("ask", host, HostCall::new(call).into_py_any(py)?, py.None())
            }
            Message::Forget { host, call } => ("forget", host, call.into_py_any(py)?, py.None()),
        })
    }
}

/// The end of a bridge that the core writes to.
pub struct Port {
    queue: Mutex<Queue>,
    bell: RawBell,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    closed: bool,
}

impl Port {
    /// Says something to the loop. To a loop that is gone it is lost; false then.
    pub fn send(&self, message: Message) -> bool {
        let refused = self.push(message);
        // What is refused is dropped here, after the lock: dropping may send a message.
        refused.is_none()
    }

    fn push(&self, message: Message) -> Option<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.closed {
            return Some(message);
        }
        queue.messages.push(message);
        if queue.messages.len() == 1 {
            self.bell.ring();
        }
        None
    }

    /// Whether the loop has fetched everything, or is gone.
    pub fn is_empty(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).messages.is_empty()
    }

    /// Whether the loop is gone.
    pub fn is_closed(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    fn take(&self, close: bool) -> Vec<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed |= close;
        std::mem::take(&mut queue.messages)
    }
}

/// The bridge that a scheduler or an object talks over: that of the loop on which it is used.
#[derive(Default)]
pub struct PortSlot {
    port: Mutex<Option<Arc<Port>>>,
}

impl PortSlot {
    /// The bridge, if there is one yet.
    pub fn get(&self) -> Option<Arc<Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this one.
    pub fn set(&self, port: &Arc<Port>) {
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = Some(port.clone());
    }

    /// Whichever loop uses it first, as long as that lives.
    pub fn set_if_none(&self, port: &Arc<Port>) {
        let mut slot = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|old| old.is_closed()) {
            *slot = Some(port.clone());
        }
    }
}

/// The bridge to one event loop: messages of the core, and a file descriptor that becomes readable
/// when there are any.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Bridge {
    pub port: Arc<Port>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Bridge> {
        let port = Port { queue: Mutex::default(), bell: RawBell::open()? };
        Ok(Bridge { port: Arc::new(port) })
    }

    /// The descriptor for `loop.add_reader`.
    fn fileno(&self) -> i32 {
        self.port.bell.fileno()
    }

    /// What the core has said since the last call.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Fetched>> {
        let Some(_inside) = Inside::enter() else { return Ok(Vec::new()) };
        self.port.bell.hush();
        let messages = self.port.take(false);
        messages.into_iter().map(|message| message.into_python(py)).collect()
    }

    /// Whether there is nothing to fetch.
    fn is_empty(&self) -> bool {
        self.port.is_empty()
    }

    /// The loop is gone: what was not fetched is dropped, and what comes later.
    fn close(&self) {
        if let Some(_inside) = Inside::enter() {
            drop(self.port.take(true));
        }
    }
}

/// Begins a call of Python's on the runtime; its answer comes over the bridge.
///
/// A manual clock sees that something is going on until the call has gone as far as it gets by
/// itself.
pub fn begin<F>(port: &Arc<Port>, call: u64, clock: &dyn Clock, work: F) -> PyResult<Call>
where
    F: Future<Output = Result<Option<String>>> + Send + 'static,
{
    Ok(spawn(port, call, &runtime(clock)?, busy(clock), work))
}

/// Begins a call on this runtime.
pub fn spawn<F>(
    port: &Arc<Port>,
    call: u64,
    runtime: &Handle,
    busy: Option<ActivityGuard>,
    work: F,
) -> Call
where
    F: Future<Output = Result<Option<String>>> + Send + 'static,
{
    let settling = Settling { port: port.clone(), call, answer: None };
    let task = async move {
        let mut settling = settling;
        let mut work = pin!(work);
        let first = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        drop(busy);
        settling.answer = Some(match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => work.await,
        });
    };
    Call { task: runtime.spawn(task).abort_handle() }
}

/// Sends the answer when it is dropped, so that a call that panics is answered too.
struct Settling {
    port: Arc<Port>,
    call: u64,
    answer: Option<Result<Option<String>>>,
}

impl Drop for Settling {
    fn drop(&mut self) {
        let given_up = || Err(Error::new(Code::Stopped, "the call was given up before its end"));
        let answer = self.answer.take().unwrap_or_else(given_up);
        self.port.send(Message::Settle { call: self.call, answer });
    }
}

/// A call that Python began.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Call {
    task: AbortHandle,
}

#[pymethods]
impl Call {
    /// Gives the call up where it stands.
    fn abort(&self) {
        if let Some(_inside) = Inside::enter() {
            self.task.abort();
        }
    }
}

// ---- bells ----

/// A file descriptor that becomes readable when the bell rings. Python waits for it in its own
/// `poll`, so no thread of Python's ever waits in ours.
pub struct RawBell {
    listen: OwnedFd,
    /// `None`: the same descriptor is written to.
    ring: Option<OwnedFd>,
}

impl RawBell {
    /// A silent bell.
    #[cfg(target_os = "linux")]
    pub fn open() -> io::Result<RawBell> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(RawBell { listen: unsafe { OwnedFd::from_raw_fd(fd) }, ring: None })
    }

    /// A silent bell.
    #[cfg(not(target_os = "linux"))]
    pub fn open() -> io::Result<RawBell> {
        let mut ends = [0; 2];
        // SAFETY: there is room for both descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptors are new and nobody else's.
        let (listen, ring) =
            unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        for end in [&listen, &ring] {
            let fd = end.as_raw_fd();
            // SAFETY: no memory is passed.
            unsafe {
                libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        Ok(RawBell { listen, ring: Some(ring) })
    }

    /// Rings; a bell that rings already goes on ringing.
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        let fd = self.ring.as_ref().unwrap_or(&self.listen).as_raw_fd();
        // SAFETY: eight bytes are there to be read. A full descriptor is readable already.
        unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    }

    /// Silences it.
    fn hush(&self) {
        let mut bytes = [0_u8; 64];
        let fd = self.listen.as_raw_fd();
        loop {
            // SAFETY: there is room for as many bytes as are asked for.
            let read = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
            // An eventfd is empty after one read, a pipe when a read brings less than asked for.
            if read < 64 {
                return;
            }
        }
    }

    /// The descriptor for `poll`; it belongs to the bell.
    fn fileno(&self) -> i32 {
        self.listen.as_raw_fd()
    }
}

/// A bell, as Python listens to it.
#[pyclass(frozen, module = "anarchon._anarchon")]
pub struct Bell {
    pub bell: Arc<RawBell>,
}

#[pymethods]
impl Bell {
    /// The descriptor for `poll`, as long as this object lives.
    fn fileno(&self) -> i32 {
        self.bell.fileno()
    }
}
