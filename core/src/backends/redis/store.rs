//! A store that is open, closed or not yet open, and the one way in which its scripts are run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join3;
use redis::Value;
use tokio_util::sync::CancellationToken;

use super::answer;
use super::ask::{Ask, Place};
use super::check;
use super::failure;
use super::keys;
use super::link::Reply;
use super::options::RedisOptions;
use super::pool::{Lane, Pool};
use super::stored;
use crate::error::{Error, Result};
use crate::lease::model::JobState;

/// A store in Redis or Valkey, with leases.
pub struct RedisBackend {
    pub(super) shared: Arc<Shared>,
    pub(super) namespace: String,
    /// Another namespace of a store that somebody else opened.
    pub(super) is_view: bool,
}

/// What the namespaces of a store share.
pub(super) struct Shared {
    pub(super) options: Arc<RedisOptions>,
    pool: Pool,
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// What a store has been opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Closed,
    Reader,
    Full,
}

struct State {
    access: Access,
    closing: CancellationToken,
}

impl RedisBackend {
    /// A store on the server that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::redis::{RedisBackend, RedisOptions};
    ///
    /// let mut options = RedisOptions::new("cache.example");
    /// options.namespace = "staging".to_owned();
    /// let backend = RedisBackend::with_options(options)?;
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: RedisOptions) -> Result<RedisBackend> {
        options.check()?;
        let namespace = options.namespace.clone();
        let options = Arc::new(options);
        let state = State { access: Access::Closed, closing: CancellationToken::new() };
        let shared = Arc::new(Shared {
            pool: Pool::new(options.clone()),
            options,
            opening: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        });
        Ok(RedisBackend { shared, namespace, is_view: false })
    }

    /// A store on the server that a URL names: `redis://user:password@host:port/db`, and likewise
    /// with `rediss`, `valkey` and `valkeys`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<RedisBackend> {
        RedisBackend::with_options(RedisOptions::from_url(url)?)
    }

    /// Where the keys of a job are.
    pub(super) fn place<'a>(&'a self, job: &'a str) -> Place<'a> {
        Place { prefix: &self.shared.options.prefix, namespace: &self.namespace, job }
    }

    /// The channel on which the ends of runs in this namespace are told.
    pub(super) fn channel(&self) -> String {
        let options = &self.shared.options;
        keys::of_wakes(&options.prefix, &self.namespace, options.db)
    }

    /// Runs one script.
    pub(super) async fn run(&self, lane: Lane, ask: Result<Ask>) -> Result<Value> {
        let mut answers = self.run_all(lane, vec![ask]).await;
        answers.pop().unwrap_or_else(|| Err(Error::unavailable("Redis gave no answer")))
    }

    /// Runs scripts in as few round trips as they fit in; one answer each, in order.
    pub(super) async fn run_all(&self, lane: Lane, asks: Vec<Result<Ask>>) -> Vec<Result<Value>> {
        let shared = &*self.shared;
        let count = asks.len();
        if let Err(error) = shared.check_open() {
            return (0..count).map(|_| Err(error.clone())).collect();
        }
        let mut sent = Vec::with_capacity(count);
        let mut refused = Vec::with_capacity(count);
        for ask in asks {
            match ask {
                Ok(mut ask) => {
                    if let Some(clock) = &shared.options.clock {
                        ask.at(clock.wall_ms());
                    }
                    sent.push(ask);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let replies = match shared.pool.run(lane, &sent).await {
            Ok(replies) => replies,
            Err(error) => return (0..count).map(|_| Err(error.clone())).collect(),
        };
        let mut replies = sent.iter().zip(replies).map(|(ask, reply)| shared.judge(ask, reply));
        let answers = refused.into_iter().map(|refused| match refused {
            Some(error) => Err(error),
            None => replies
                .next()
                .unwrap_or_else(|| Err(Error::unavailable("Redis gave too few answers"))),
        });
        answers.collect()
    }

    /// What is stored of a job, for tests that compare.
    ///
    /// # Errors
    /// Whatever reading fails with.
    pub async fn state(&self, job: &str) -> Result<JobState> {
        let told = |error| failure::told(&self.shared.options, &error);
        let place = self.place(job);
        let [job, records, _, _, missed] = keys::of_job(place.prefix, place.namespace, place.job);
        let link = self.shared.pool.link().await?;
        let all = |key: &str| redis::cmd("HGETALL").arg(key).take();
        let (job, records) = (all(&job), all(&records));
        let missed = redis::cmd("LRANGE").arg(&missed).arg(0).arg(-1).take();
        let read = try_join3(link.ask(&job), link.ask(&records), link.ask(&missed));
        let (job, records, missed): (BTreeMap<_, _>, BTreeMap<_, _>, Vec<String>) =
            read.await.map_err(told)?;
        stored::parse_state(job, records, &missed)
    }
}

impl Shared {
    fn check_open(&self) -> Result<()> {
        if self.access() > Access::Closed {
            return Ok(());
        }
        Err(Error::unavailable(
            "the redis store is not open: it was not initialised yet, or has been closed",
        ))
    }

    pub(super) fn access(&self) -> Access {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).access
    }

    /// Cancelled when the store is closed.
    pub(super) fn closing(&self) -> CancellationToken {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closing.clone()
    }

    /// Connects and checks the server, unless that has been done.
    pub(super) async fn open(&self, access: Access) -> Result<()> {
        let _opening = self.opening.lock().await;
        if self.access() >= access {
            return Ok(());
        }
        let link = self.pool.link().await?;
        let checked = check::server(&self.options, &link, access == Access::Reader).await;
        if checked.is_err() && self.access() == Access::Closed {
            self.pool.close();
        }
        checked?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).access = access;
        Ok(())
    }

    /// Gives up all connections; the store can be opened again.
    pub(super) async fn shut(&self) {
        let _opening = self.opening.lock().await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.access = Access::Closed;
        std::mem::take(&mut state.closing).cancel();
        drop(state);
        self.pool.close();
    }

    /// A promise counts once enough replicas have it.
    fn judge(&self, ask: &Ask, reply: Reply) -> Result<Value> {
        let options = &self.options;
        let value = reply.value.map_err(|error| failure::told(options, &error))?;
        let wanted = i64::from(options.wait_replicas);
        if wanted == 0 || !ask.operation.promises() || !answer::is_granted(&value) {
            return Ok(value);
        }
        match reply.copies {
            Some(Ok(had)) if had >= wanted => Ok(value),
            Some(Ok(had)) => Err(Error::unavailable(format!(
                "Redis at {}: {had} of {wanted} replicas had the change within {} ms, so it may \
                 be lost in a failover; the outcome is unknown",
                options.address(),
                options.wait_timeout_ms
            ))),
            Some(Err(error)) => Err(failure::told(options, &error)),
            None => Err(Error::unavailable("Redis gave no answer to WAIT")),
        }
    }
}
