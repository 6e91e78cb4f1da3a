//! What the tests of several stores share.

pub mod histories;
