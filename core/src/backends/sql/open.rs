//! Opening a SQL store: connecting, checking, creating the tables once.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::client::{SqlQueryable, SqlValue};
use super::engine::{Access, Live, SqlEngine, SqlStore};
use super::failures::{Failures, is_for_now};
use super::schema::{SCHEMA_MAJOR, SCHEMA_MINOR};
use super::statements::Statements;
use crate::backends::own::Owns;
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Code, Error, Result};

impl<S: SqlStore + ?Sized> SqlEngine<S> {
    /// Opens the store for `access`, unless it is open already.
    pub(super) async fn open(&self, access: Access) -> Result<()> {
        let _opening = self.shared.opening.lock().await;
        let before = self.live().ok();
        if before.as_ref().is_some_and(|live| live.access >= access) {
            return Ok(());
        }
        let connected = self.shared.store.connect(access).await?;
        let (dialect, random) = (self.shared.store.dialect(), &self.shared.random);
        let statements = Arc::new(Statements::new(dialect, self.tables(), random));
        let live = Live {
            client: connected.client,
            owned: connected.owned,
            access,
            statements,
            owns: Owns::of(1_024),
            time: Mutex::default(),
        };
        if let Err(error) = self.prepare(&live).await {
            if live.owned {
                let _closed = live.client.close().await;
            }
            return Err(error);
        }
        self.set_live(Some(Arc::new(live)));
        // What a reader had opened is not needed any more.
        match before {
            Some(before) if before.owned => before.client.close().await,
            _ => Ok(()),
        }
    }

    /// Closes what was opened.
    pub(super) async fn shut(&self) -> Result<()> {
        let _opening = self.shared.opening.lock().await;
        match self.set_live(None) {
            Some(live) if live.owned => live.client.close().await,
            _ => Ok(()),
        }
    }

    fn set_live(&self, live: Option<Arc<Live>>) -> Option<Arc<Live>> {
        let mut place = self.shared.live.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, live)
    }

    async fn prepare(&self, live: &Live) -> Result<()> {
        self.shared.store.check_server(&live.client).await?;
        let deadline = SystemClock.mono_ms() + self.shared.options.call_timeout_ms;
        let mut failures = Failures::default();
        for round in 0_u32.. {
            let Err(error) = self.prepare_once(live).await else { return Ok(()) };
            // Several that start at once get into each other's way; each of them is fine in the end.
            let pause = 1 + self.shared.random.up_to(8 << round.min(6));
            if failures.end_with(&error) || SystemClock.mono_ms() + pause >= deadline {
                return Err(error);
            }
            sleep_for(&SystemClock, pause).await;
        }
        Ok(())
    }

    async fn prepare_once(&self, live: &Live) -> Result<()> {
        // Read before anything is written: a store of a newer major is left as it is.
        let found = schema_version(live).await;
        if let Ok(Some(major)) = found {
            return self.check_version(major);
        }
        if live.access == Access::Full && matches!(found, Ok(None)) {
            // The tables were created with what ddl() returns; their row is no table.
            self.number_tables(live).await?;
        } else if live.access == Access::Reader || !self.shared.options.create_tables {
            return Err(match found {
                // A server that does not answer is not a server without tables.
                Err(error) if is_for_now(&error) => error,
                other => self.no_tables(other.err()),
            });
        } else {
            self.create_tables(live).await?;
        }
        match schema_version(live).await? {
            Some(major) => self.check_version(major),
            None => Err(Error::unavailable(format!(
                "the table {} has been created, but its row is not there",
                self.tables().schema
            ))),
        }
    }

    async fn number_tables(&self, live: &Live) -> Result<()> {
        let row = [1, SCHEMA_MAJOR, SCHEMA_MINOR].map(SqlValue::Int);
        live.client.all(&live.statements.insert_schema_version, &row).await.map(drop)
    }

    fn check_version(&self, major: i64) -> Result<()> {
        if major <= SCHEMA_MAJOR {
            return Ok(());
        }
        Err(Error::new(
            Code::SchemaTooNew,
            format!(
                "the tables beside {} were written by a newer version of the library (schema \
                 {major}, this version knows {SCHEMA_MAJOR}); update this program, or give it \
                 other tables",
                self.shared.options.table
            ),
        ))
    }

    fn no_tables(&self, error: Option<Error>) -> Error {
        let said = error.map(|error| format!(" ({})", error.message())).unwrap_or_default();
        Error::new(
            Code::BackendRefused,
            format!(
                "the tables {} are not there{said}. Start a scheduler on this store once, or \
                 create them with the statements that ddl() returns",
                self.shared.options.table
            ),
        )
    }

    async fn create_tables(&self, live: &Live) -> Result<()> {
        let ddl: Arc<[String]> = self.ddl().into();
        let statements = live.statements.clone();
        let body = move |tx: Arc<dyn SqlQueryable>| {
            let (ddl, statements) = (ddl.clone(), statements.clone());
            let run = async move {
                for statement in ddl.iter() {
                    if let Err(error) = tx.all(statement, &[]).await
                        && !statements.dialect.is_already_created(&error)
                    {
                        return Err(error);
                    }
                }
                if tx.all(&statements.schema_version, &[]).await?.is_empty() {
                    let row = [1, SCHEMA_MAJOR, SCHEMA_MINOR].map(SqlValue::Int);
                    tx.all(&statements.insert_schema_version, &row).await?;
                }
                Ok(())
            };
            Box::pin(run) as BoxFuture<'static, Result<()>>
        };
        live.client.transaction(Arc::new(body)).await
    }
}

async fn schema_version(live: &Live) -> Result<Option<i64>> {
    let rows = live.client.all(&live.statements.schema_version, &[]).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let values = row.into_order(&["major", "minor"])?;
    values[0].whole().map(Some).ok_or_else(|| {
        Error::new(
            Code::BackendRefused,
            format!("{:?} is no version of a schema; wanted is a whole number", values[0]),
        )
    })
}
