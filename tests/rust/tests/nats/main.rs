//! The NATS store on real servers.
//!
//! `ANARCHON_TEST_NATS_URL` names one (default `nats://127.0.0.1:4222`, of any version from 2.9 on),
//! `ANARCHON_TEST_NATS_SERVER` the program of a current one (default: the one that `make build`
//! installs). Tests run on both; those that kill, pause or cut a server start one of their own.

mod archives;
mod checks;
mod cluster;
mod conformance;
mod faults;
mod histories;
mod names;
mod plain;
mod races;
mod server;
mod sizes;
mod tls;
mod trimming;
mod trips;
mod wakes;
mod wire;
