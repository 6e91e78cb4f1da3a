//! The Redis store on real servers.
//!
//! `ANARCHON_TEST_REDIS_URL` names one (default `redis://127.0.0.1:6379`). Tests that restart, fill,
//! pause or flush a server start one of their own from `redis-server`.

mod checks;
mod cluster;
mod conformance;
mod faults;
mod histories;
mod lost_writes;
mod names;
mod plain;
mod races;
mod replicas;
mod server;
mod tls;
mod wakes;
