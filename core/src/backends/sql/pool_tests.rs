//! Which connection a call gets.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt;

use super::{Connect, Failure, Fate, Pool, Talk};
use crate::backends::sql::{Lane, Row, SqlValue};
use crate::error::{Error, Result};

/// Numbers its connections.
#[derive(Default)]
struct Numbers {
    made: AtomicUsize,
    closed: AtomicUsize,
}

struct Number(usize);

#[async_trait]
impl Talk for Number {
    async fn talk(&mut self, sql: &str, _params: &[SqlValue]) -> Result<Vec<Row>, Failure> {
        match sql {
            "fails" => Err(Failure::broken(Error::unavailable("it failed"))),
            _ => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl Connect for Numbers {
    type Conn = Number;

    async fn connect(&self) -> Result<Number> {
        Ok(Number(self.made.fetch_add(1, Ordering::Relaxed)))
    }

    async fn close(&self, _conn: Number) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

fn failed(conn: Fate) -> Result<(), Failure> {
    Err(Failure { error: Error::unavailable("it failed"), conn })
}

#[tokio::test]
async fn nothing_is_opened_before_it_is_wanted_and_then_used_again() {
    let pool = Pool::new(Numbers::default(), 2);
    assert_eq!(pool.connector().made.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        pool.take(Lane::Ordinary).await.expect("there is a place").keep();
    }
    assert_eq!(pool.connector().made.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_heartbeat_has_a_connection_of_its_own_beside_a_pool_of_one() {
    let pool = Pool::new(Numbers::default(), 1);
    let busy = pool.take(Lane::Ordinary).await.expect("there is a place");
    assert!(pool.take(Lane::Ordinary).now_or_never().is_none(), "the pool has one place");
    let beat = pool.take(Lane::Heartbeat).now_or_never();
    beat.expect("does not wait").expect("connects").keep();
    drop(busy);
    assert!(pool.take(Lane::Ordinary).now_or_never().is_some());
}

#[tokio::test]
async fn a_connection_is_used_again_unless_it_broke() {
    let pool = Pool::new(Numbers::default(), 1);
    let held = pool.take(Lane::Ordinary).await.expect("connects");
    held.settle(&failed(Fate::Usable));
    let held = pool.take(Lane::Ordinary).await.expect("connects");
    assert_eq!(held.conn.0, 0, "the server only said no");
    held.settle(&failed(Fate::Broken));
    assert_eq!(pool.take(Lane::Ordinary).await.expect("connects").conn.0, 1);
}

#[tokio::test]
async fn after_the_server_went_away_nothing_old_is_used() {
    let pool = Pool::new(Numbers::default(), 3);
    let first = pool.take(Lane::Ordinary).await.expect("connects");
    let second = pool.take(Lane::Ordinary).await.expect("connects");
    let third = pool.take(Lane::Ordinary).await.expect("connects");
    first.keep();
    second.settle(&failed(Fate::ServerGone));
    third.keep();
    assert_eq!(pool.take(Lane::Ordinary).await.expect("connects").conn.0, 3);
}

#[tokio::test]
async fn closing_closes_what_lies_idle_and_ends_the_waiting() {
    let pool = Pool::new(Numbers::default(), 1);
    pool.take(Lane::Ordinary).await.expect("connects").keep();
    pool.take(Lane::Heartbeat).await.expect("connects").keep();
    pool.close().await;
    pool.close().await;
    assert_eq!(pool.connector().closed.load(Ordering::Relaxed), 2);
    assert!(pool.take(Lane::Ordinary).await.is_err());
}

#[tokio::test]
async fn a_transaction_that_fails_breaks_its_connection_off() {
    let pool = Pool::new(Numbers::default(), 1);
    let body = |sql: &'static str| -> crate::backends::sql::TransactionBody {
        std::sync::Arc::new(move |tx| Box::pin(async move { tx.all(sql, &[]).await.map(drop) }))
    };
    pool.transaction("BEGIN", body("works")).await.expect("commits");
    assert_eq!(pool.take(Lane::Ordinary).await.expect("connects").conn.0, 0);
    let pool = Pool::new(Numbers::default(), 1);
    pool.transaction("BEGIN", body("fails")).await.expect_err("fails");
    assert_eq!(pool.take(Lane::Ordinary).await.expect("connects").conn.0, 1);
}
