//! RabbitMQ: claims without leases. Declaring a queue is the compare-and-set.
//!
//! A claim declares a durable classic queue named for the job and the slot, with the token among
//! its arguments. The first declare creates the queue and wins; the same declare again is answered
//! with yes; one with another token is refused, because the queue is there with another argument.
//! Nothing is ever put into such a queue. It expires when nobody has declared it for the dedupe
//! window, and with it the slot is forgotten; so a slot that old is granted to nobody.
//!
//! Records lie in one stream per job. Whoever reads a stream takes nothing out of it.
//!
//! The server has no clock that a client could ask: what is too early or too old is judged by ours.

mod backend;
mod check;
mod claim;
mod failure;
mod lane;
mod link;
mod names;
mod options;
mod record;
mod store;
mod stream;

pub use self::options::RabbitMqOptions;
pub use self::store::RabbitMqBackend;
