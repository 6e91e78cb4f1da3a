//! The SQL engine and the SQLite store, from outside.

mod conformance;
mod histories;
mod names;
mod opening;
mod plain;
mod processes;
mod races;
mod schema;
mod store;
mod together;
mod trimming;
