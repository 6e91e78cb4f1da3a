//! The PostgreSQL store, from outside, on a real server.

mod conformance;
mod faults;
mod opening;
mod pooler;
mod store;
mod tls;
mod together;
mod trips;
mod wakes;
