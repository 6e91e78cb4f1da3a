//! The connections of a store: opened when they are needed, given up when they are spent.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, Id};

use super::ask::Ask;
use super::failure;
use super::link::{Copies, Link, Reply};
use super::options::RedisOptions;
use super::script::{Operation, Scripts};
use crate::error::Result;

/// Who asks: heartbeats have a connection of their own and never wait behind anything else.
#[derive(Clone, Copy)]
pub(super) enum Lane {
    Ordinary,
    Heartbeat,
}

/// How many commands travel together at most: other calls on the connection wait that long.
const BATCH: usize = 250;

/// How many runtimes may have a connection in one place, before the oldest is closed.
const RUNTIMES: usize = 4;

/// All connections of a store.
pub(super) struct Pool {
    options: Arc<RedisOptions>,
    ordinary: Vec<Seat>,
    heartbeat: Seat,
    next: AtomicUsize,
    scripts: &'static Scripts,
}

/// Room for one connection; one for each runtime, since a connection is driven by the runtime that
/// opened it (heartbeats have a thread and a runtime of their own).
#[derive(Default)]
struct Seat {
    opening: tokio::sync::Mutex<()>,
    links: Mutex<Vec<Kept>>,
    number: AtomicU64,
}

#[derive(Clone)]
struct Kept {
    runtime: Id,
    number: u64,
    link: Link,
}

impl Seat {
    fn kept(&self) -> Option<Kept> {
        let runtime = Handle::current().id();
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().find(|kept| kept.runtime == runtime).cloned()
    }

    /// The connection of this runtime, and whether it was opened just now.
    async fn take(&self, options: &RedisOptions) -> Result<(Kept, bool)> {
        if let Some(kept) = self.kept() {
            return Ok((kept, false));
        }
        let _opening = self.opening.lock().await;
        if let Some(kept) = self.kept() {
            return Ok((kept, false));
        }
        let link = Link::open(options).await?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let kept = Kept { runtime: Handle::current().id(), number, link };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.push(kept.clone());
        if links.len() > RUNTIMES {
            links.remove(0);
        }
        drop(links);
        Ok((kept, true))
    }

    fn give_up(&self, number: u64) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|kept| kept.number != number);
    }

    fn close(&self) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A connection in use. If the caller stops waiting for the answer, nobody knows whether there
/// will ever be one: the connection is given up.
struct Use<'a> {
    seat: &'a Seat,
    number: u64,
    is_over: bool,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.seat.give_up(self.number);
        }
    }
}

impl Pool {
    /// A pool that has connected to nothing yet.
    pub(super) fn new(options: Arc<RedisOptions>) -> Pool {
        let scripts = Scripts::on_clock(options.clock.is_some());
        let ordinary = (0..options.pool).map(|_| Seat::default()).collect();
        let (heartbeat, next) = (Seat::default(), AtomicUsize::new(0));
        Pool { options, ordinary, heartbeat, next, scripts }
    }

    fn seat(&self, lane: Lane) -> &Seat {
        match lane {
            Lane::Heartbeat => &self.heartbeat,
            Lane::Ordinary => {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                &self.ordinary[next % self.ordinary.len()]
            }
        }
    }

    /// A connection for what is no script.
    pub(super) async fn link(&self) -> Result<Link> {
        self.seat(Lane::Ordinary).take(&self.options).await.map(|(kept, _)| kept.link)
    }

    /// Gives up every connection.
    pub(super) fn close(&self) {
        self.ordinary.iter().for_each(Seat::close);
        self.heartbeat.close();
    }

    /// Runs scripts; one reply each, in order.
    ///
    /// # Errors
    /// If no connection can be opened.
    pub(super) async fn run(&self, lane: Lane, asks: &[Ask]) -> Result<Vec<Reply>> {
        let seat = self.seat(lane);
        let mut replies = Vec::with_capacity(asks.len());
        for batch in asks.chunks(BATCH) {
            replies.extend(self.run_batch(seat, batch).await?);
        }
        Ok(replies)
    }

    async fn run_batch(&self, seat: &Seat, asks: &[Ask]) -> Result<Vec<Reply>> {
        loop {
            let (kept, is_new) = seat.take(&self.options).await?;
            let mut using = Use { seat, number: kept.number, is_over: false };
            let replies = self.send(&kept.link, asks).await;
            let failed = |test: fn(&redis::RedisError) -> bool| {
                move |reply: &Reply| reply.value.as_ref().is_err_and(test)
            };
            using.is_over = !replies.iter().any(failed(failure::is_spent));
            // A connection that had been lost unnoticed is replaced at once: every script may be
            // repeated, for it compares tokens.
            if is_new || !replies.iter().all(failed(failure::is_worth_repeating)) {
                return Ok(replies);
            }
        }
    }

    /// By hash first; the server is told the text of what it does not know.
    async fn send(&self, link: &Link, asks: &[Ask]) -> Vec<Reply> {
        let copies = self.copies(asks);
        let by_hash = asks.iter().map(|ask| ask.by_hash(self.scripts.get(ask.operation)));
        let mut replies = link.send(by_hash.collect(), copies).await;
        let unknown = |reply: &Reply| reply.value.as_ref().is_err_and(failure::is_unknown_script);
        let missing: Vec<usize> = (0..asks.len()).filter(|at| unknown(&replies[*at])).collect();
        if missing.is_empty() {
            return replies;
        }
        let mut told: Vec<Operation> = Vec::new();
        let by_text = missing.iter().map(|at| {
            let operation = asks[*at].operation;
            let script = self.scripts.get(operation);
            // A server reads what we send in order, and knows the text after the first time.
            if matches!(link, Link::Server(_)) && told.contains(&operation) {
                return asks[*at].by_hash(script);
            }
            told.push(operation);
            asks[*at].by_text(script)
        });
        let by_text = by_text.collect();
        for (at, reply) in missing.into_iter().zip(link.send(by_text, copies).await) {
            replies[at] = reply;
        }
        replies
    }

    fn copies(&self, asks: &[Ask]) -> Option<Copies> {
        let (wanted, timeout_ms) = (self.options.wait_replicas, self.options.wait_timeout_ms);
        let promises = asks.iter().any(|ask| ask.operation.promises());
        (wanted > 0 && promises).then_some(Copies { wanted, timeout_ms })
    }
}
