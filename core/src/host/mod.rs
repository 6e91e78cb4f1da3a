//! What both languages share: how names are written, and host objects as trait objects.
//!
//! A backend, a store of leases or a SQL client may be an object of Python or of JavaScript. A
//! binding reduces it to a [`object::HostObject`]: has-method and call-method, with plain values.
//! Everything else is decided here, once: names in both styles, optional members and their
//! fall-backs, unknown words, and what is said of an answer of the wrong type.

pub mod answer;
pub mod backend;
pub mod names;
pub mod object;
pub mod sql;
