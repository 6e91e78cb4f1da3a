//! A store that is open, closed or not yet open, and the one way in which it asks the server.

use std::sync::{Arc, Mutex, PoisonError};

use super::check;
use super::lane::{Lane, Trouble};
use super::link::{Purpose, Seat};
use super::names::Place;
use super::options::RabbitMqOptions;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// A store in RabbitMQ, without leases.
pub struct RabbitMqBackend {
    pub(super) shared: Arc<Shared>,
    pub(super) namespace: String,
    /// Another namespace of a store that somebody else opened.
    pub(super) is_view: bool,
}

/// What the namespaces of a store share.
pub(super) struct Shared {
    pub(super) options: Arc<RabbitMqOptions>,
    claims: Seat,
    records: Seat,
    opening: tokio::sync::Mutex<()>,
    access: Mutex<Access>,
}

/// What a store has been opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Closed,
    Reader,
    Full,
}

/// How often a call is sent at most where connections turn out to be lost.
const TRIES: usize = 3;

impl RabbitMqBackend {
    /// A store on the server that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::rabbitmq::{RabbitMqBackend, RabbitMqOptions};
    ///
    /// let mut options = RabbitMqOptions::new("mq.example");
    /// options.namespace = "staging".to_owned();
    /// let backend = RabbitMqBackend::with_options(options)?;
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: RabbitMqOptions) -> Result<RabbitMqBackend> {
        options.check()?;
        let namespace = options.namespace.clone();
        let shared = Arc::new(Shared {
            options: Arc::new(options),
            claims: Seat::new(Purpose::Claims),
            records: Seat::new(Purpose::Records),
            opening: tokio::sync::Mutex::default(),
            access: Mutex::new(Access::Closed),
        });
        Ok(RabbitMqBackend { shared, namespace, is_view: false })
    }

    /// A store on the server that a URL names: `amqp://user:password@host:port/vhost`, or `amqps`.
    /// What is too early or too old is judged by `clock`, the scheduler's.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str, clock: &Arc<dyn Clock>) -> Result<RabbitMqBackend> {
        let mut options = RabbitMqOptions::from_url(url)?;
        options.clock = clock.clone();
        RabbitMqBackend::with_options(options)
    }

    /// Where the queues of a job are.
    pub(super) fn place<'a>(&'a self, job: &'a str) -> Place<'a> {
        Place { prefix: &self.shared.options.prefix, namespace: &self.namespace, job }
    }

    pub(super) fn now(&self) -> i64 {
        self.shared.options.clock.wall_ms()
    }
}

impl Shared {
    fn access(&self) -> Access {
        *self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_access(&self, access: Access) {
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = access;
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.access() > Access::Closed {
            return Ok(());
        }
        Err(Error::unavailable(
            "the rabbitmq store is not open: it was not initialised yet, or has been closed",
        ))
    }

    /// Connects and checks the server, unless that has been done.
    pub(super) async fn open(&self, access: Access) -> Result<()> {
        let _opening = self.opening.lock().await;
        if self.access() >= access {
            return Ok(());
        }
        let checked = check::server(self, access == Access::Reader).await;
        if checked.is_err() && self.access() == Access::Closed {
            self.claims.close().await;
        }
        checked?;
        self.set_access(access);
        Ok(())
    }

    /// Gives up all connections; the store can be opened again.
    pub(super) async fn shut(&self) {
        let _opening = self.opening.lock().await;
        self.set_access(Access::Closed);
        self.claims.close().await;
        self.records.close().await;
    }

    /// Asks the server over a channel. A connection that had been lost unnoticed is replaced at
    /// once: everything may be repeated, for a claim compares tokens, and a record that is written
    /// twice is one.
    pub(super) async fn on<T, F>(&self, purpose: Purpose, call: impl Fn(Lane) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let seat = match purpose {
            Purpose::Claims => &self.claims,
            Purpose::Records => &self.records,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let (link, is_new) = seat.take(&self.options).await?;
            let answer = match Lane::of(&link).await {
                Ok(lane) => call(lane).await,
                Err(trouble) => Err(trouble),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(trouble) if is_new || tries >= TRIES || !trouble.is_worth_repeating() => {
                    return Err(trouble.told(&link));
                }
                Err(_) => {}
            }
        }
    }
}
