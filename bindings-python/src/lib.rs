//! The native half of the Python package: converts, calls the core, converts back. It decides
//! nothing, and what it exposes is private: every promise is on the package above it.
//!
//! Rust never calls Python from a thread of its own and never waits while it holds the GIL or a
//! lock: what the core has to say is queued as messages for one event loop and fetched by it
//! (`runtime`). So no thread of ours can wait for the GIL, and no wait of Python's for a lock.

mod backend;
mod error;
mod object;
mod runtime;
mod scheduler;
mod testing;
mod value;

use pyo3::pymodule;

#[pymodule(gil_used = false)]
mod _anarchon {
    #[pymodule_export]
    use crate::backend::{
        Backend, build_history, host_backend, host_sql, memory_backend, open_backend,
    };
    #[pymodule_export]
    use crate::error::{error_codes, nearest_name};
    #[pymodule_export]
    use crate::object::HostCall;
    #[pymodule_export]
    use crate::runtime::{Bell, Bridge, Call, after_fork, close_door};
    #[pymodule_export]
    use crate::scheduler::{Cancel, Run, Scheduler, event_names, job_option_names};
    #[pymodule_export]
    use crate::testing::{ManualClock, case_names, check_backend};
    #[pymodule_export]
    use crate::value::parse_duration_ms;
}
