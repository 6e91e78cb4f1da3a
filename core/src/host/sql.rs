//! A SQL client of the user's own, and a SQL database that the user describes.
//!
//! The binding's thin layer wraps whatever the user gives into one object with the methods
//! `connect`, `checkServer`, `all`, `transaction` and `close`. Where the user brings a dialect, the
//! thin layer applies its `placeholders` to every statement before it reaches the driver, calls its
//! `serialize` when the wrapped transaction is asked to `serialize`, and lets a `CREATE` statement
//! succeed whose error its `isAlreadyCreated` knows. So the core needs nothing of it but texts.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use crate::backends::sql::{
    Access, Connected, EngineOptions, Row, SqlClient, SqlDialect, SqlEngine, SqlQueryable,
    SqlStore, SqlValue, TransactionBody,
};
use crate::backends::sqlite::{SqliteDialect, check_table};
use crate::error::{Code, Error, Result};
use crate::host::answer::wrong;
use crate::host::names::Naming;
use crate::host::object::{HostBody, HostObject};

/// How a SQL backend over a user's client is set up, as the thin layer tells it (camelCase).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostSqlOptions {
    /// Shown as `scheduler.backend.name`.
    pub name: String,
    /// The runs table.
    pub table: String,
    /// Part of every row's key.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether missing tables are created.
    #[serde(default = "yes")]
    pub create_tables: bool,
    /// Which dialect the database speaks.
    pub dialect: HostDialectOptions,
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn yes() -> bool {
    true
}

/// A dialect of ours by its name, or the texts of a user's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum HostDialectOptions {
    /// `sqlite` or `postgres`.
    Ours(String),
    /// The texts of a user's dialect.
    #[serde(rename_all = "camelCase")]
    Texts {
        /// The type of a 64-bit integer.
        bigint: String,
        /// An expression that reads the server's clock (ms).
        now_ms: String,
        /// What locks the rows that are read.
        for_update: String,
        /// What `extraTables(table)` answered.
        #[serde(default)]
        extra_tables: Vec<String>,
    },
}

/// A SQL backend over a user's client.
pub type HostSqlBackend = SqlEngine<HostSqlStore>;

/// Reaches a database through a host object.
pub struct HostSqlStore {
    object: Arc<dyn HostObject>,
    name: String,
    dialect: Arc<dyn SqlDialect>,
    naming: Naming,
}

/// A SQL backend over the wrapped client `object`. Nothing is called yet.
///
/// # Errors
/// `INVALID_OPTION` for options that cannot be read, or a dialect that is not ours.
pub fn open(object: Arc<dyn HostObject>, options: Value, naming: Naming) -> Result<HostSqlBackend> {
    let options: HostSqlOptions = serde_json::from_value(options)
        .map_err(|error| Error::option(format!("the options of the SQL backend: {error}")))?;
    crate::scheduler::check_namespace(&options.namespace)?;
    check_table(&options.table)?;
    let dialect = dialect(options.dialect)?;
    let engine = EngineOptions {
        table: options.table,
        create_tables: options.create_tables,
        ..EngineOptions::default()
    };
    let store = HostSqlStore { object, name: options.name, dialect, naming };
    Ok(SqlEngine::new(store, &options.namespace, engine))
}

fn dialect(options: HostDialectOptions) -> Result<Arc<dyn SqlDialect>> {
    match options {
        HostDialectOptions::Ours(name) => match name.as_str() {
            "sqlite" => Ok(Arc::new(SqliteDialect)),
            #[cfg(feature = "postgres")]
            "postgres" => Ok(Arc::new(crate::backends::postgres::PostgresDialect)),
            #[cfg(feature = "mysql")]
            "mysql" => Ok(Arc::new(crate::backends::mysql::MySqlDialect)),
            other => Err(Error::option(format!("there is no dialect {other:?}"))),
        },
        HostDialectOptions::Texts { bigint, now_ms, for_update, extra_tables } => {
            Ok(Arc::new(HostDialect { bigint, now_ms, for_update, extra_tables }))
        }
    }
}

#[async_trait]
impl SqlStore for HostSqlStore {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn dialect(&self) -> Arc<dyn SqlDialect> {
        self.dialect.clone()
    }

    async fn connect(&self, _access: Access) -> Result<Connected> {
        let answer = self.object.call("connect", Vec::new(), Vec::new()).await?;
        let owned = answer.get("owned").and_then(Value::as_bool).unwrap_or(false);
        let client = Arc::new(HostClient { object: self.object.clone() });
        Ok(Connected { client, owned })
    }

    async fn check_server(&self, _client: &Arc<dyn SqlClient>) -> Result<()> {
        let member = self.naming.write("checkServer");
        self.object.call(&member, Vec::new(), Vec::new()).await.map(|_answer| ())
    }
}

/// The texts of a user's dialect.
struct HostDialect {
    bigint: String,
    now_ms: String,
    for_update: String,
    extra_tables: Vec<String>,
}

#[async_trait]
impl SqlDialect for HostDialect {
    fn bigint(&self) -> String {
        self.bigint.clone()
    }

    fn now_ms(&self) -> String {
        self.now_ms.clone()
    }

    fn for_update(&self) -> String {
        self.for_update.clone()
    }

    /// Done by the thin layer, where the user's function can be called.
    fn placeholders(&self, sql: &str) -> String {
        sql.to_owned()
    }

    fn extra_tables(&self, _table: &str) -> Vec<String> {
        self.extra_tables.clone()
    }

    async fn serialize(&self, tx: &Arc<dyn SqlQueryable>, job: &str) -> Result<()> {
        tx.serialize(job).await
    }

    /// Done by the thin layer, which lets such a statement succeed.
    fn is_already_created(&self, _error: &Error) -> bool {
        false
    }
}

/// A host object that takes statements.
struct HostQueryable {
    object: Arc<dyn HostObject>,
}

async fn all(object: &Arc<dyn HostObject>, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
    let params = Value::Array(params.iter().map(to_json).collect());
    let answer = object.call("all", vec![Value::from(sql), params], Vec::new()).await?;
    let member = format!("{}.all()", object.describe());
    let Value::Array(rows) = answer else {
        return Err(wrong(&member, &answer, "a list of rows, one object each"));
    };
    let rows = rows.into_iter().map(|row| match row {
        Value::Object(fields) => {
            let pairs = fields.into_iter().map(|(name, value)| (name, from_json(value)));
            Ok(Row::from_pairs(pairs))
        }
        other => {
            Err(wrong(&member, &other, "rows that are objects, with the names of the columns"))
        }
    });
    rows.collect()
}

fn to_json(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Int(number) => Value::from(*number),
        SqlValue::Real(number) => Value::from(*number),
        SqlValue::Bool(truth) => Value::from(*truth),
        SqlValue::Text(text) => Value::from(text.as_str()),
        SqlValue::Bytes(bytes) => Value::from(String::from_utf8_lossy(bytes)),
    }
}

fn from_json(value: Value) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Bool(truth) => SqlValue::Bool(truth),
        Value::String(text) => SqlValue::Text(text),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => SqlValue::Int(whole),
            None => SqlValue::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        // A driver that parses JSON columns hands back what was stored as text.
        structure => SqlValue::Text(structure.to_string()),
    }
}

#[async_trait]
impl SqlQueryable for HostQueryable {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        all(&self.object, sql, params).await
    }

    async fn serialize(&self, job: &str) -> Result<()> {
        self.object.call("serialize", vec![Value::from(job)], Vec::new()).await.map(|_answer| ())
    }
}

/// A host object that takes statements and runs transactions.
struct HostClient {
    object: Arc<dyn HostObject>,
}

#[async_trait]
impl SqlQueryable for HostClient {
    async fn all(&self, sql: &str, params: &[SqlValue]) -> Result<Vec<Row>> {
        all(&self.object, sql, params).await
    }
}

#[async_trait]
impl SqlClient for HostClient {
    /// What the driver's `transaction` answers is not looked at: drivers wrap, and run the body
    /// again. The body's own last result is kept here.
    async fn transaction(&self, body: TransactionBody) -> Result<()> {
        let last: Arc<Mutex<Option<Result<()>>>> = Arc::default();
        let kept = last.clone();
        let run: HostBody = Arc::new(move |object| {
            let (body, kept) = (body.clone(), kept.clone());
            Box::pin(async move {
                let result = body(Arc::new(HostQueryable { object })).await;
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(result.clone());
                result
            })
        });
        let driver = self.object.transaction(run).await;
        let body = last.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (body, driver) {
            // The body's own error, also where the driver wrapped it.
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(Ok(())), Ok(())) => Ok(()),
            (None, Ok(())) => Err(Error::new(
                Code::BackendRefused,
                format!(
                    "{}.transaction() returned without calling the function it was given",
                    self.object.describe()
                ),
            )),
        }
    }

    async fn close(&self) -> Result<()> {
        self.object.call("close", Vec::new(), Vec::new()).await.map(|_answer| ())
    }
}
