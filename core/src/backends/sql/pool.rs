//! Connections to a server: opened when they are wanted, one kept apart for heartbeats.
//!
//! Nothing is sent on a connection that lies idle, and none is tested before it is used: a dead one
//! is noticed by the call that uses it, whose answer is then unknown, and the engine asks again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::client::{Lane, Row, SqlQueryable, SqlValue, TransactionBody};
use crate::error::{Error, Result};

/// A connection that takes statements.
#[async_trait]
pub(in crate::backends) trait Talk: Send {
    /// Sends one statement and brings back all its rows.
    async fn talk(&mut self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>, Failure>;
}

/// How a connection is made and ended.
#[async_trait]
pub(in crate::backends) trait Connect: Send + Sync {
    /// The connection. Dropped it must break off, so that an open transaction is rolled back.
    type Conn: Talk + 'static;

    /// A new connection.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` or `BACKEND_REFUSED`, as the server says.
    async fn connect(&self) -> Result<Self::Conn>;

    /// Ends a connection in good order.
    async fn close(&self, conn: Self::Conn);
}

/// The connections of one process to one server.
pub(in crate::backends) struct Pool<C: Connect> {
    connector: C,
    ordinary: Places<C::Conn>,
    heartbeats: Places<C::Conn>,
    /// Raised when the server seems to be gone: what was connected before is not used again.
    era: AtomicU64,
}

struct Places<T> {
    free: Semaphore,
    /// With the era in which each was connected; the one used last is used next.
    idle: Mutex<Vec<(u64, T)>>,
}

impl<T> Places<T> {
    fn new(count: usize) -> Places<T> {
        Places { free: Semaphore::new(count), idle: Mutex::default() }
    }

    fn take_idle(&self) -> Vec<(u64, T)> {
        std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection in use. Dropped without [`Held::keep`] it breaks off.
pub(in crate::backends) struct Held<'a, C: Connect> {
    pool: &'a Pool<C>,
    places: &'a Places<C::Conn>,
    _place: SemaphorePermit<'a>,
    era: u64,
    pub(in crate::backends) conn: C::Conn,
}

impl<C: Connect> Pool<C> {
    /// Room for `size` connections, and one more for heartbeats. Nothing is opened.
    pub(in crate::backends) fn new(connector: C, size: usize) -> Pool<C> {
        let (ordinary, heartbeats) = (Places::new(size.max(1)), Places::new(1));
        Pool { connector, ordinary, heartbeats, era: AtomicU64::new(0) }
    }

    #[cfg(test)]
    pub(in crate::backends) const fn connector(&self) -> &C {
        &self.connector
    }

    /// A connection; waits for a place.
    ///
    /// # Errors
    /// Whatever connecting fails with, and `BACKEND_UNAVAILABLE` if the pool was closed.
    pub(in crate::backends) async fn take(&self, lane: Lane) -> Result<Held<'_, C>> {
        let places = match lane {
            Lane::Ordinary => &self.ordinary,
            Lane::Heartbeat => &self.heartbeats,
        };
        let closed = |_| Error::unavailable("the connections of this store were closed");
        let place = places.free.acquire().await.map_err(closed)?;
        let now = self.era.load(Ordering::Relaxed);
        let idle = loop {
            let idle = places.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some((era, _)) if era != now => {}
                other => break other.map(|(_, conn)| conn),
            }
        };
        let conn = match idle {
            Some(conn) => conn,
            None => self.connector.connect().await?,
        };
        Ok(Held { pool: self, places, _place: place, era: now, conn })
    }

    /// One statement on a connection of this lane.
    ///
    /// # Errors
    /// As [`Pool::take`], and what the server says.
    pub(in crate::backends) async fn all(
        &self,
        lane: Lane,
        sql: &str,
        params: &[SqlValue],
    ) -> Result<Vec<Row>> {
        let mut held = self.take(lane).await?;
        let answer = held.conn.talk(sql, params).await;
        held.settle(&answer);
        answer.map_err(|failure| failure.error)
    }

    /// Runs `body` between `begin` and `COMMIT`. Whatever fails breaks the connection off, and the
    /// transaction with it.
    ///
    /// # Errors
    /// As [`Pool::take`], and what the server or `body` says.
    pub(in crate::backends) async fn transaction(
        &self,
        begin: &str,
        body: TransactionBody,
    ) -> Result<()> {
        let held = self.take(Lane::Ordinary).await?;
        let Held { pool, places, _place: place, era, conn } = held;
        let tx = Arc::new(Within(tokio::sync::Mutex::new(Some(conn))));
        tx.all(begin, &[]).await?;
        body(tx.clone()).await?;
        tx.all("COMMIT", &[]).await?;
        let conn = tx.0.lock().await.take();
        let gone = || Error::unavailable("the connection of a transaction is gone");
        Held { pool, places, _place: place, era, conn: conn.ok_or_else(gone)? }.keep();
        Ok(())
    }

    /// What lies idle is not used again: the server was restarted, or another one took over.
    pub(in crate::backends) fn begin_era(&self) {
        self.era.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes what lies idle; what is in use breaks off when it is given back.
    pub(in crate::backends) async fn close(&self) {
        for places in [&self.heartbeats, &self.ordinary] {
            places.free.close();
            for (_, conn) in places.take_idle() {
                self.connector.close(conn).await;
            }
        }
    }
}

/// A connection inside a transaction.
struct Within<T>(tokio::sync::Mutex<Option<T>>);

#[async_trait]
impl<T: Talk> SqlQueryable for Within<T> {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        let mut conn = self.0.lock().await;
        let ended = || Error::unavailable("this transaction has ended");
        let conn = conn.as_mut().ok_or_else(ended)?;
        conn.talk(sql, params).await.map_err(|failure| failure.error)
    }
}

impl<C: Connect> Held<'_, C> {
    /// Gives the connection back for others to use.
    pub(in crate::backends) fn keep(self) {
        let Held { pool, places, era, conn, .. } = self;
        if !places.free.is_closed() && era == pool.era.load(Ordering::Relaxed) {
            places.idle.lock().unwrap_or_else(PoisonError::into_inner).push((era, conn));
        }
    }

    /// Gives the connection back after a call, according to what became of it.
    pub(in crate::backends) fn settle<T>(self, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) | Err(Failure { conn: Fate::Usable, .. }) => self.keep(),
            Err(Failure { conn: Fate::Broken, .. }) => {}
            Err(Failure { conn: Fate::ServerGone, .. }) => self.pool.begin_era(),
        }
    }
}

/// What becomes of a connection on which something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backends) enum Fate {
    /// The server said no and waits for the next statement.
    Usable,
    /// It must not be used again.
    Broken,
    /// None that was made before must be used again.
    ServerGone,
}

/// An error, and what it means for the connection.
#[derive(Clone, Debug)]
pub(in crate::backends) struct Failure {
    pub(in crate::backends) error: Error,
    pub(in crate::backends) conn: Fate,
}

impl Failure {
    /// What failed has nothing to do with the connection.
    pub(in crate::backends) fn usable(error: Error) -> Failure {
        Failure { error, conn: Fate::Usable }
    }

    /// The answer is unknown and the connection is not to be used again.
    pub(in crate::backends) fn broken(error: Error) -> Failure {
        Failure { error, conn: Fate::Broken }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
