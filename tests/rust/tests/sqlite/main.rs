//! The SQL engine and the SQLite store, from outside.

mod histories;
mod store;
