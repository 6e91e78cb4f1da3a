//! The connections of one process to one file.
//!
//! SQLite lets in one writer at a time. The writers of this process do not fight for that: they
//! queue, and all that have queued while one transaction is written to disk go into the next one
//! together, each under its own guard. Heartbeats have a queue and a connection of their own, so
//! that they wait for one transaction at most.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};

use super::connection::{Conn, Connector, is_busy};
use super::script;
use crate::backends::sql::{
    Access, Lane, Row, SqlClient, SqlQueryable, SqlValue, TransactionBody, Unit,
};
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Code, Error, Result};
use crate::random::Random;

/// The connections of one process to one file.
pub(super) struct SqliteClient {
    connector: Connector,
    /// How long one attempt to begin a transaction goes on (ms).
    busy_timeout_ms: i64,
    random: Random,
    ordinary: Writer,
    heartbeats: Writer,
    /// Whose turn it is to write, in order of arrival.
    turn: tokio::sync::Mutex<()>,
    readers: Readers,
    /// Once closed, nothing is opened any more.
    closed: AtomicBool,
}

/// A queue of changes and the connection that writes them.
#[derive(Default)]
struct Writer {
    queue: Mutex<VecDeque<Pending>>,
    conn: tokio::sync::Mutex<Option<Conn>>,
}

/// Changes that wait to be written.
struct Pending {
    units: Arc<[Unit]>,
    reply: oneshot::Sender<Result<Vec<bool>>>,
}

/// The connections for reading; none if the pool is 1, and the writer reads too.
struct Readers {
    size: usize,
    places: Semaphore,
    idle: Mutex<Vec<Conn>>,
}

/// The most changes in one transaction: a heartbeat waits for one transaction at most.
const MOST_UNITS: usize = 1_024;

impl SqliteClient {
    pub(super) fn new(connector: Connector, pool: usize, busy_timeout_ms: i64) -> SqliteClient {
        let size = pool.saturating_sub(1);
        SqliteClient {
            connector,
            busy_timeout_ms,
            random: Random::system(),
            ordinary: Writer::default(),
            heartbeats: Writer::default(),
            turn: tokio::sync::Mutex::new(()),
            readers: Readers { size, places: Semaphore::new(size), idle: Mutex::default() },
            closed: AtomicBool::new(false),
        }
    }

    fn writer(&self, lane: Lane) -> &Writer {
        match lane {
            Lane::Ordinary => &self.ordinary,
            Lane::Heartbeat => &self.heartbeats,
        }
    }

    /// Opens the writing connection and makes sure of the write-ahead log, in which readers do not
    /// wait for the writer.
    pub(super) async fn open(&self, access: Access) -> Result<()> {
        let mut place = self.ordinary.conn.lock().await;
        let conn = self.conn(&mut place).await?;
        if access == Access::Reader || journal_mode(conn, "PRAGMA journal_mode").await? == "wal" {
            return Ok(());
        }
        let deadline = SystemClock.mono_ms() + self.busy_timeout_ms;
        loop {
            // Several that start at once: only one can change the mode, and the others need not.
            match journal_mode(conn, "PRAGMA journal_mode = WAL").await {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(Error::new(
                        Code::BackendRefused,
                        format!(
                            "SQLite keeps its journal in mode {mode} and not in WAL, which it \
                             needs shared memory beside the file for; put the file on a local disk"
                        ),
                    ));
                }
                Err(error) if is_busy(&error) && SystemClock.mono_ms() < deadline => {
                    self.wait_a_little().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn conn<'a>(&self, place: &'a mut Option<Conn>) -> Result<&'a mut Conn> {
        if place.is_none() {
            *place = Some(self.connect().await?);
        }
        place.as_mut().ok_or_else(|| Error::unavailable("the SQLite connection is gone"))
    }

    /// A new connection. While somebody else changes the journal mode even that has to wait.
    async fn connect(&self) -> Result<Conn> {
        let deadline = SystemClock.mono_ms() + self.busy_timeout_ms;
        loop {
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::unavailable("the SQLite store was closed"));
            }
            match self.connector.connect().await {
                Err(error) if is_busy(&error) && SystemClock.mono_ms() < deadline => {
                    self.wait_a_little().await;
                }
                answer => return answer,
            }
        }
    }

    async fn wait_a_little(&self) {
        sleep_for(&SystemClock, 1 + self.random.up_to(6)).await;
    }

    /// Reads on a connection of its own.
    async fn read(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        let closed = |_| Error::unavailable("the SQLite store was closed");
        let _place = self.readers.places.acquire().await.map_err(closed)?;
        let idle = self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut conn = match idle {
            Some(conn) => conn,
            None => self.connect().await?,
        };
        // A connection that failed, or whose reader was dropped here, is not used again.
        let rows = conn.run(sql, params).await?;
        if !self.closed.load(Ordering::SeqCst) {
            self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
        Ok(rows)
    }

    /// Reads on the connection of a writer.
    async fn read_as_writer(&self, lane: Lane, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        let mut place = self.writer(lane).conn.lock().await;
        let conn = self.conn(&mut place).await?;
        conn.run(sql, params).await
    }

    /// Queues changes, and writes whatever is queued once it is this one's turn.
    async fn write(&self, lane: Lane, units: &Arc<[Unit]>) -> Result<Vec<bool>> {
        let (reply, mut answer) = oneshot::channel();
        let writer = self.writer(lane);
        writer.queue().push_back(Pending { units: units.clone(), reply });
        let mut place = writer.conn.lock().await;
        loop {
            match answer.try_recv() {
                Ok(answer) => return answer,
                Err(oneshot::error::TryRecvError::Closed) => {
                    return Err(Error::unavailable("writing to SQLite was interrupted"));
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let group = writer.take();
            self.write_group(&mut place, group).await;
        }
    }

    /// Writes a group in one transaction; if that fails, each of it in one of its own.
    async fn write_group(&self, place: &mut Option<Conn>, group: Vec<Pending>) {
        let all: Vec<&[Unit]> = group.iter().map(|pending| pending.units.as_ref()).collect();
        match self.transact(place, &all).await {
            Ok(held) => {
                for (pending, held) in group.into_iter().zip(held) {
                    let _gone = pending.reply.send(Ok(held));
                }
            }
            Err(error) if group.len() == 1 => {
                for pending in group {
                    let _gone = pending.reply.send(Err(error.clone()));
                }
            }
            Err(_) => {
                for pending in group {
                    let alone = self.transact(place, &[pending.units.as_ref()]).await;
                    let alone = alone.map(|held| held.into_iter().flatten().collect());
                    let _gone = pending.reply.send(alone);
                }
            }
        }
    }

    /// Writes some units in one transaction: for each whether its guard held.
    async fn transact(&self, place: &mut Option<Conn>, all: &[&[Unit]]) -> Result<Vec<Vec<bool>>> {
        let _turn = self.turn.lock().await;
        let deadline = SystemClock.mono_ms() + self.busy_timeout_ms;
        let group = script::Group::of(all);
        loop {
            self.conn(place).await?;
            let Some(mut conn) = place.take() else {
                return Err(Error::unavailable("the SQLite connection is gone"));
            };
            // It is put back when its transaction is over; dropped before that, it rolls back.
            let error = match group.run(&mut conn).await {
                Ok(held) => {
                    *place = Some(conn);
                    return Ok(held);
                }
                Err(script::Failed::Within(error)) => return Err(error),
                Err(script::Failed::NotBegun(error)) => error,
            };
            if !is_busy(&error) || SystemClock.mono_ms() >= deadline {
                return Err(error);
            }
            *place = Some(conn);
            self.wait_a_little().await;
        }
    }
}

impl Writer {
    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<Pending>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes into the next transaction: what nobody waits for any more does not.
    fn take(&self) -> Vec<Pending> {
        let mut queue = self.queue();
        let (mut group, mut units) = (Vec::new(), 0);
        while let Some(pending) = queue.pop_front() {
            if pending.reply.is_closed() {
                continue;
            }
            units += pending.units.len();
            group.push(pending);
            if queue.front().is_some_and(|next| units + next.units.len() > MOST_UNITS) {
                break;
            }
        }
        group
    }
}

async fn journal_mode(conn: &mut Conn, pragma: &str) -> Result<String> {
    let rows = conn.run(pragma, &[]).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let values = row.into_order(&["journal_mode"])?;
    Ok(values[0].text().unwrap_or_default().into_owned())
}

#[async_trait]
impl SqlQueryable for SqliteClient {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.all_in(Lane::Ordinary, sql, params).await
    }
}

#[async_trait]
impl SqlClient for SqliteClient {
    async fn transaction(&self, body: TransactionBody) -> Result<()> {
        let mut place = self.ordinary.conn.lock().await;
        let _turn = self.turn.lock().await;
        self.conn(&mut place).await?;
        let conn =
            place.take().ok_or_else(|| Error::unavailable("the SQLite connection is gone"))?;
        // The connection is put back only after a commit: dropped, it rolls back.
        let tx = Arc::new(Within { conn: tokio::sync::Mutex::new(Some(conn)) });
        let deadline = SystemClock.mono_ms() + self.busy_timeout_ms;
        while let Err(error) = tx.all("BEGIN IMMEDIATE", &[]).await {
            if !is_busy(&error) || SystemClock.mono_ms() >= deadline {
                return Err(error);
            }
            self.wait_a_little().await;
        }
        body(tx.clone()).await?;
        tx.all("COMMIT", &[]).await?;
        *place = tx.conn.lock().await.take();
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        self.readers.places.close();
        let idle: Vec<Conn> =
            std::mem::take(&mut *self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for conn in idle {
            conn.close().await;
        }
        for writer in [&self.heartbeats, &self.ordinary] {
            if let Some(conn) = writer.conn.lock().await.take() {
                conn.close().await;
            }
        }
        Ok(())
    }

    async fn all_in(&self, lane: Lane, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        if lane == Lane::Heartbeat || self.readers.size == 0 {
            return self.read_as_writer(lane, sql, params).await;
        }
        self.read(sql, params).await
    }

    async fn apply(&self, lane: Lane, units: &Arc<[Unit]>) -> Option<Result<Vec<bool>>> {
        Some(self.write(lane, units).await)
    }
}

/// A connection inside a transaction.
struct Within {
    conn: tokio::sync::Mutex<Option<Conn>>,
}

#[async_trait]
impl SqlQueryable for Within {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        let mut conn = self.conn.lock().await;
        let gone = || Error::unavailable("this SQLite transaction has ended");
        conn.as_mut().ok_or_else(gone)?.run(sql, params).await
    }
}
