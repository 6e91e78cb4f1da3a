//! NATS JetStream: the rules decide here, and a message that may only follow its predecessor is
//! what makes them atomic.
//!
//! One stream keeps one message per subject. A job has one subject; its message is the whole state
//! that is decided upon. A call loads it, decides by [`crate::lease::rules`], and publishes the new
//! state on the condition that the old one is still the last of its subject. If it is not, somebody
//! was faster: the call loads again. So a loser costs one round trip, a winner two.
//!
//! What decides nothing (errors, outputs, most of what is recorded of ended runs) lies on subjects of
//! its own and is written before the state that names it, so that a state never names what is not
//! there.

mod api;
mod archive;
mod backend;
mod check;
mod engine;
mod failure;
mod link;
mod options;
mod source;
mod store;
mod stored;
mod subjects;
mod watch;

pub use self::options::NatsOptions;
pub use self::store::NatsBackend;
