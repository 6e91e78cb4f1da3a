//! A connection, and the seats where connections are kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Connection, ConnectionProperties};
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;

use super::failure;
use super::lane::Idle;
use super::options::RabbitMqOptions;
use crate::clock::{SystemClock, sleep_for};
use crate::error::{Error, Result};

/// What a connection is for. A server that is short of memory or disk stops listening to those who
/// publish: claims publish nothing, and have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Claims,
    Records,
}

/// How often the server shows that it is there (s). A connection that is silent for twice as long is
/// lost.
const HEARTBEAT_S: u16 = 10;

/// How long a connection that is closed may take to say so (ms).
const GOODBYE_MS: i64 = 1_000;

/// How many runtimes may have a connection in one place, before the oldest is closed.
const RUNTIMES: usize = 4;

/// A connection and its channels.
pub(super) struct Link {
    pub(super) options: Arc<RabbitMqOptions>,
    pub(super) purpose: Purpose,
    pub(super) connection: Connection,
    /// Open channels that nobody uses.
    pub(super) idle: Mutex<Vec<Idle>>,
    /// How many channels may be in use.
    pub(super) places: Arc<Semaphore>,
    is_spent: AtomicBool,
}

impl Link {
    async fn open(options: Arc<RabbitMqOptions>, purpose: Purpose) -> Result<Link> {
        let tls = certificates(&options)?;
        let runtime = lapin::runtime::default_runtime().map_err(|e| failure::told(&options, &e))?;
        let name = match purpose {
            Purpose::Claims => "anarchon claims",
            Purpose::Records => "anarchon records",
        };
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let connecting =
            Connection::connect_uri_with_config(address(&options), properties, tls, runtime);
        let connected = within(&options, "connecting", connecting).await?;
        let connection = connected.map_err(|error| failure::told(&options, &error))?;
        let places = Arc::new(Semaphore::new(options.channels));
        let (idle, is_spent) = (Mutex::default(), AtomicBool::new(false));
        Ok(Link { options, purpose, connection, idle, places, is_spent })
    }

    /// Nobody shall use the connection again: it is lost, or an answer on it may still come.
    pub(super) fn spend(&self) {
        self.is_spent.store(true, Ordering::SeqCst);
    }

    fn is_good(&self) -> bool {
        !self.is_spent.load(Ordering::SeqCst) && self.connection.status().connected()
    }

    async fn close(&self) {
        let goodbye = self.connection.close(200, "OK".into());
        tokio::select! {
            // Whatever it answers, the connection is not used again.
            _ = goodbye => {}
            () = sleep_for(&SystemClock, GOODBYE_MS) => {}
        }
    }
}

/// Waits for an answer as long as the options allow.
///
/// # Errors
/// `BACKEND_UNAVAILABLE` if there is none by then.
pub(super) async fn within<T>(
    options: &RabbitMqOptions,
    what: &str,
    answer: impl Future<Output = T>,
) -> Result<T> {
    tokio::select! {
        biased;
        answer = answer => Ok(answer),
        () = sleep_for(&SystemClock, options.call_timeout_ms) => Err(Error::unavailable(format!(
            "RabbitMQ at {}: no answer to {what} within {} ms",
            options.address(),
            options.call_timeout_ms
        ))),
    }
}

/// Room for one connection for each runtime: a connection is driven by the runtime that opened it.
pub(super) struct Seat {
    purpose: Purpose,
    opening: tokio::sync::Mutex<()>,
    links: Mutex<Vec<(Id, Arc<Link>)>>,
}

impl Seat {
    pub(super) fn new(purpose: Purpose) -> Seat {
        Seat { purpose, opening: tokio::sync::Mutex::default(), links: Mutex::default() }
    }

    fn kept(&self) -> Option<Arc<Link>> {
        let runtime = Handle::current().id();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|(_, link)| link.is_good());
        links.iter().find(|(id, _)| *id == runtime).map(|(_, link)| link.clone())
    }

    /// The connection of this runtime, and whether it was opened just now.
    pub(super) async fn take(&self, options: &Arc<RabbitMqOptions>) -> Result<(Arc<Link>, bool)> {
        if let Some(link) = self.kept() {
            return Ok((link, false));
        }
        let _opening = self.opening.lock().await;
        if let Some(link) = self.kept() {
            return Ok((link, false));
        }
        let link = Arc::new(Link::open(options.clone(), self.purpose).await?);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.push((Handle::current().id(), link.clone()));
        if links.len() > RUNTIMES {
            links.remove(0);
        }
        Ok((link, true))
    }

    /// Gives up every connection.
    pub(super) async fn close(&self) {
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, link) in links {
            link.spend();
            link.close().await;
        }
    }
}

fn address(options: &RabbitMqOptions) -> AMQPUri {
    let userinfo =
        AMQPUserInfo { username: options.username.clone(), password: options.password.clone() };
    let host = options.host.clone();
    AMQPUri {
        scheme: if options.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority { userinfo, host, port: options.port },
        vhost: options.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT_S), ..AMQPQueryString::default() },
    }
}

fn certificates(options: &RabbitMqOptions) -> Result<OwnedTLSConfig> {
    let read = |name: &str, file: &Option<std::path::PathBuf>| -> Result<Option<Vec<u8>>> {
        let Some(path) = file else { return Ok(None) };
        let text = std::fs::read(path);
        text.map(Some).map_err(|error| {
            Error::option(format!("{name} is {path:?}, which cannot be read: {error}"))
        })
    };
    let authorities = read("tlsCa", &options.tls_ca)?.map(String::from_utf8).transpose();
    let cert_chain = authorities.map_err(|_| Error::option("tlsCa is not a file in PEM format"))?;
    let pair = read("tlsCert", &options.tls_cert)?.zip(read("tlsKey", &options.tls_key)?);
    let identity = pair.map(|(pem, key)| OwnedIdentity::PKCS8 { pem, key });
    Ok(OwnedTLSConfig { identity, cert_chain })
}
