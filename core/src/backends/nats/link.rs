//! Connections to NATS: opened when they are needed, given up when they are of no more use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Message, Request, ServerInfo};
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use super::failure;
use super::options::NatsOptions;
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Error, Result};

/// How many runtimes may have a connection in one place, before the oldest is closed.
const RUNTIMES: usize = 4;

/// So often the client tries to connect anew by itself; after that the next call does it.
const RECONNECTS: usize = 60;

/// The longest wait between two of these (ms).
const LONGEST_PAUSE_MS: u64 = 1_000;

/// What the client tells of a connection: it goes up by one whenever it is lost and whenever it is
/// there again, so an odd number says that it is lost.
type Changes = u64;

/// A connection. Cloning shares it.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) client: Client,
    changes: watch::Receiver<Changes>,
    /// How often a connection of the store was lost.
    losses: Arc<AtomicU64>,
    /// What the server complained about last.
    complaint: Arc<Mutex<Option<String>>>,
    options: Arc<NatsOptions>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` if no server can be reached, `BACKEND_REFUSED` if it does not let us
    /// in, `INVALID_OPTION` for files that cannot be read.
    async fn open(options: &Arc<NatsOptions>, losses: &Arc<AtomicU64>) -> Result<Link> {
        let (told, changes) = watch::channel(0);
        let complaint: Arc<Mutex<Option<String>>> = Arc::default();
        let (into, lost, losses) = (complaint.clone(), losses.clone(), losses.clone());
        let told = Arc::new(told);
        let connect = connect_options(options)?.event_callback(move |event| {
            note(&event, &told, &into, &lost);
            async {}
        });
        let timeout = options.call_timeout_ms;
        let connecting = connect.connect(options.servers.clone());
        let client = tokio::select! {
            connected = connecting => connected.map_err(|error| failure::connecting(options, &error))?,
            () = sleep_for(&SystemClock, timeout) => {
                return Err(failure::silent(options, "connecting", timeout));
            }
        };
        Ok(Link { client, changes, losses, complaint, options: options.clone() })
    }

    /// What the server said of itself.
    pub(super) fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    /// How often a connection of the store was lost so far.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Whether whoever drives the connection is still there.
    fn is_driven(&self) -> bool {
        self.changes.has_changed().is_ok()
    }

    /// Sends a request and waits for its answer. An answer that a lost connection has taken along
    /// is not waited for.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE`: whether the request has arrived is unknown.
    pub(super) async fn request(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Vec<u8>,
    ) -> Result<Message> {
        let timeout = self.options.call_timeout_ms;
        let what = subject.clone();
        tokio::select! {
            answer = self.ask(subject, headers, payload) => answer,
            () = sleep_for(&SystemClock, timeout) => {
                let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
                Err(match &*complaint {
                    Some(why) if failure::is_about(why, &what) => {
                        failure::complained(&self.options, why)
                    }
                    _ => failure::silent(&self.options, &what, timeout),
                })
            }
        }
    }

    async fn ask(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Vec<u8>,
    ) -> Result<Message> {
        let lost = || {
            let place = self.options.address();
            Error::unavailable(format!("NATS at {place}: the connection was lost"))
        };
        let mut changes = self.changes.clone();
        changes.wait_for(|changes| changes % 2 == 0).await.map_err(|_| lost())?;
        changes.borrow_and_update();
        let mut request = Request::new().payload(payload.into()).timeout(None);
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        tokio::select! {
            biased;
            answer = self.client.send_request(subject, request) => {
                answer.map_err(|error| match error.kind() {
                    RequestErrorKind::NoResponders => failure::nobody(&self.options),
                    _ => failure::sending(&self.options, &error),
                })
            }
            _ = changes.changed() => Err(lost()),
        }
    }

    /// Publishes what nobody answers.
    pub(super) async fn tell(&self, subject: String, payload: Vec<u8>) {
        // What is told only shortens waits, or is told once more: whether it arrives is no matter.
        let _sent = self.client.publish(subject, payload.into()).await;
    }

    /// Sends a request whose answer nobody waits for; it arrives before whatever is sent after it.
    pub(super) async fn send(&self, subject: String, payload: Vec<u8>, reply: String) {
        let _sent = self.client.publish_with_reply(subject, reply, payload.into()).await;
    }
}

fn note(
    event: &Event,
    told: &watch::Sender<Changes>,
    complaint: &Mutex<Option<String>>,
    losses: &AtomicU64,
) {
    match event {
        Event::Connected => {
            told.send_if_modified(|changes| {
                let was_lost = *changes % 2 == 1;
                *changes += u64::from(was_lost);
                was_lost
            });
        }
        Event::Disconnected | Event::Closed => {
            losses.fetch_add(1, Ordering::Relaxed);
            told.send_if_modified(|changes| {
                let was_there = *changes % 2 == 0;
                *changes += u64::from(was_there);
                was_there
            });
        }
        Event::ServerError(error) => {
            let mut complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner);
            *complaint = Some(error.to_string());
        }
        _ => {}
    }
}

fn connect_options(options: &NatsOptions) -> Result<ConnectOptions> {
    let timeout = Duration::from_millis(options.call_timeout_ms.unsigned_abs());
    let mut connect = ConnectOptions::new()
        .name("anarchon")
        .connection_timeout(timeout)
        .request_timeout(None)
        .ping_interval(Duration::from_secs(20))
        .max_reconnects(RECONNECTS)
        .reconnect_delay_callback(|attempts| {
            let pause = 25_u64 << attempts.min(6);
            Duration::from_millis(if attempts < 2 { 0 } else { pause.min(LONGEST_PAUSE_MS) })
        });
    if let (Some(user), Some(password)) = (&options.username, &options.password) {
        connect = connect.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &options.token {
        connect = connect.token(token.clone());
    }
    if let Some(path) = &options.nkey_file {
        connect = connect.nkey(read("nkeyFile", path)?.trim().to_owned());
    }
    if let Some(path) = &options.credentials_file {
        connect = connect.credentials(&read("credentialsFile", path)?).map_err(|error| {
            Error::option(format!("credentialsFile is {path:?}, which holds none: {error}"))
        })?;
    }
    if options.tls { with_tls(options, connect) } else { Ok(connect) }
}

fn with_tls(options: &NatsOptions, connect: ConnectOptions) -> Result<ConnectOptions> {
    // The first provider that a process names is its provider: ours, or one that was there before.
    let _before = async_nats::rustls::crypto::ring::default_provider().install_default();
    let mut connect = connect.require_tls(true);
    if let Some(path) = &options.tls_ca {
        read("tlsCa", path)?;
        connect = connect.add_root_certificates(path.clone());
    }
    if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
        read("tlsCert", cert)?;
        read("tlsKey", key)?;
        connect = connect.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(connect)
}

fn read(name: &str, path: &std::path::Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        Error::option(format!("{name} is {path:?}, which cannot be read: {error}"))
    })
}

/// The connections of a store, one for each runtime: a connection is driven by the runtime that
/// opened it, and heartbeats have a thread and a runtime of their own.
pub(super) struct Links {
    options: Arc<NatsOptions>,
    opening: tokio::sync::Mutex<()>,
    kept: Mutex<Vec<Kept>>,
    next: AtomicU64,
    losses: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Kept {
    runtime: Id,
    number: u64,
    link: Link,
}

impl Links {
    /// No connections yet.
    pub(super) fn new(options: Arc<NatsOptions>) -> Links {
        let (opening, kept) = (tokio::sync::Mutex::default(), Mutex::default());
        Links { options, opening, kept, next: AtomicU64::new(0), losses: Arc::default() }
    }

    fn kept(&self) -> Option<Kept> {
        let runtime = Handle::current().id();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.link.is_driven());
        kept.iter().find(|kept| kept.runtime == runtime).cloned()
    }

    /// The connection of this runtime, opened if there is none.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(super) async fn take(&self) -> Result<Link> {
        if let Some(kept) = self.kept() {
            return Ok(kept.link);
        }
        let _opening = self.opening.lock().await;
        if let Some(kept) = self.kept() {
            return Ok(kept.link);
        }
        let link = Link::open(&self.options, &self.losses).await?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Kept { runtime: Handle::current().id(), number, link: link.clone() });
        if kept.len() > RUNTIMES {
            kept.sort_by_key(|kept| kept.number);
            kept.remove(0);
        }
        Ok(link)
    }

    /// Gives up every connection.
    pub(super) fn close(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The monotonic clock of the machine (ms).
pub(super) fn mono_ms() -> i64 {
    SystemClock.mono_ms()
}
