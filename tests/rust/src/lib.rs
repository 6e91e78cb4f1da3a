//! What the tests and benchmarks of several stores share.

pub mod alone;
pub mod certificates;
pub mod faults;
pub mod heard;
pub mod histories;
pub mod inputs;
pub mod page;
pub mod private;
pub mod proxy;
pub mod races;
pub mod servers;
pub mod tally;
pub mod words;
