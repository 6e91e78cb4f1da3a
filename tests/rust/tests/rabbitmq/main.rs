//! The RabbitMQ store on real servers.
//!
//! `ANARCHON_TEST_RABBITMQ_URL` names one (default `amqp://guest:guest@127.0.0.1:5672`). Tests that
//! kill a server, or set it up in another way, start one of their own.

mod claims;
mod conformance;
mod faults;
mod ground;
mod history;
mod opening;
mod private;
mod tls;
mod trips;
