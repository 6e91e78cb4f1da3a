//! The MySQL and MariaDB store, from outside, on a real server.

mod clock;
mod conformance;
mod faults;
mod opening;
mod store;
mod tls;
mod together;
mod trips;
