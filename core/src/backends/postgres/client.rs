//! The connections of one process to one PostgreSQL server.

use std::sync::Arc;

use async_trait::async_trait;

use super::apply::{self, Texts};
use super::connection::Connector;
use super::wakes::Wakes;
use crate::backends::sql::pool::Pool;
use crate::backends::sql::{
    Lane, Row, SqlClient, SqlQueryable, SqlValue, Tables, TransactionBody, Unit,
};
use crate::error::Result;

/// The connections of one process to one server.
pub(super) struct PostgresClient {
    pool: Pool<Connector>,
    texts: Texts,
    wakes: Arc<Wakes>,
}

impl PostgresClient {
    pub(super) fn new(
        connector: Connector,
        size: usize,
        tables: Tables,
        wakes: Arc<Wakes>,
    ) -> PostgresClient {
        PostgresClient { pool: Pool::new(connector, size), texts: Texts::new(tables), wakes }
    }

    async fn apply_lot(&self, lane: Lane, lot: &[&Unit]) -> Result<Vec<bool>> {
        let rows = match lot {
            [unit] => {
                let (sql, params) = (self.texts.single(unit), apply::params(unit));
                self.all_in(lane, &sql, &params).await?
            }
            lot => self.all_in(lane, &self.texts.many(lot)?, &[]).await?,
        };
        apply::held(lot, rows)
    }

    /// Each lot is a transaction of its own: what is atomic is the change of one job.
    async fn apply_all(&self, lane: Lane, units: &[Unit]) -> Result<Vec<bool>> {
        let mut held = vec![false; units.len()];
        for lot in apply::lots(units) {
            let of_lot: Vec<&Unit> = lot.iter().map(|index| &units[*index]).collect();
            let answers = self.apply_lot(lane, &of_lot).await?;
            for (index, answer) in lot.into_iter().zip(answers) {
                held[index] = answer;
            }
        }
        Ok(held)
    }
}

#[async_trait]
impl SqlQueryable for PostgresClient {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.all_in(Lane::Ordinary, sql, params).await
    }
}

#[async_trait]
impl SqlClient for PostgresClient {
    async fn transaction(&self, body: TransactionBody) -> Result<()> {
        self.pool.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", body).await
    }

    async fn close(&self) -> Result<()> {
        self.wakes.close();
        self.pool.close().await;
        Ok(())
    }

    async fn all_in(&self, lane: Lane, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.pool.all(lane, sql, params).await
    }

    async fn apply(&self, lane: Lane, units: &Arc<[Unit]>) -> Option<Result<Vec<bool>>> {
        Some(self.apply_all(lane, units).await)
    }
}
