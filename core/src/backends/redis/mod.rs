//! Redis and Valkey: the rules run on the server, as scripts.
//!
//! Every operation is one script (`lua/*.lua`) and one round trip. A script decides by the server's
//! clock and sees the whole state of one job: nothing comes between reading and writing. The rules
//! are stated a second time in Lua for that, and a test holds both statements equal on random
//! histories.
//!
//! The keys of a job share one hash tag, so that a cluster keeps them together. A claim reads the
//! job's header, its unfinished runs and one record; never an output or an error, which lie apart.

mod answer;
mod ask;
mod backend;
mod check;
mod failure;
mod keys;
mod link;
mod options;
mod pool;
mod script;
mod store;
mod stored;
mod watch;

pub use self::options::RedisOptions;
pub use self::store::RedisBackend;
