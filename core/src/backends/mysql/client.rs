//! The connections of one process to one MySQL or MariaDB server.

use std::sync::Arc;

use async_trait::async_trait;

use super::connection::{Conn, Connector};
use super::script::{Script, script};
use crate::backends::sql::pool::{Failure, Pool};
use crate::backends::sql::{Lane, Row, SqlClient, SqlQueryable, SqlValue, TransactionBody, Unit};
use crate::error::Result;

/// The connections of one process to one server.
pub(super) struct MySqlClient {
    pool: Pool<Connector>,
}

impl MySqlClient {
    pub(super) fn new(connector: Connector, size: usize) -> MySqlClient {
        MySqlClient { pool: Pool::new(connector, size) }
    }

    /// As many of the units as go into one text, in a transaction of their own: what is atomic is
    /// the change of one job.
    async fn apply_some(&self, lane: Lane, units: &[&Unit]) -> Result<Vec<bool>> {
        let script = script(units)?;
        let mut held = self.pool.take(lane).await?;
        let written = Self::write(&mut held.conn, &script, &units[..script.units()]).await;
        held.settle(&written);
        written.map_err(|failure| failure.error)
    }

    async fn write(
        conn: &mut Conn,
        script: &Script,
        units: &[&Unit],
    ) -> Result<Vec<bool>, Failure> {
        let changed = conn.run_all(&script.text).await?;
        // Broken off, the transaction is rolled back.
        let held = script.held(units, &changed).map_err(Failure::broken)?;
        conn.run_all("COMMIT").await?;
        Ok(held)
    }

    async fn apply_all(&self, lane: Lane, units: &[Unit]) -> Result<Vec<bool>> {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by(|a, b| units[*a].job.cmp(&units[*b].job));
        let mut held = vec![false; units.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let sorted: Vec<&Unit> = rest.iter().map(|index| &units[*index]).collect();
            let answers = self.apply_some(lane, &sorted).await?;
            let (these, after) = rest.split_at(answers.len());
            for (index, answer) in these.iter().zip(answers) {
                held[*index] = answer;
            }
            rest = after;
        }
        Ok(held)
    }
}

#[async_trait]
impl SqlQueryable for MySqlClient {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.all_in(Lane::Ordinary, sql, params).await
    }
}

#[async_trait]
impl SqlClient for MySqlClient {
    async fn transaction(&self, body: TransactionBody) -> Result<()> {
        self.pool.transaction("START TRANSACTION", body).await
    }

    async fn close(&self) -> Result<()> {
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
