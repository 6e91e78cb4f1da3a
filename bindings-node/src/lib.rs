//! The native part of the npm package: convert, call the core, convert back.
//!
//! Nothing is decided here and nothing here is public: the TypeScript in `ts/` is the package's
//! face, and the only caller of this module. JavaScript objects never live in Rust, with one
//! exception: a thrown value is kept so that the same object can be thrown again. Everything else
//! is known by number, and plain values cross as JSON text.

mod backend;
mod error;
mod object;
mod runtime;
mod scheduler;
mod testing;
mod value;
