//! Faults that an earlier form of the rules really had, to be put back on purpose.
//!
//! A simulation that never fails proves little. So each mend that the documentation of the rules
//! marks (`[F01]` …) can be taken out again, in builds with debug assertions only: there the
//! simulation must find a violation. In a release build [`is_out`] is `false` at compile time and
//! nothing is left of it.

#[cfg(debug_assertions)]
use std::cell::Cell;

/// A mend that can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// A repeated claim renews the lease, for the caller counts from the later sending.
    F01,
    /// Trimming leaves what is younger than `keepMs`.
    F02,
    /// A repeat does not revive a lease that was given back.
    F08,
    /// A handler does not start when the deadline has passed by the time the answer is read.
    F10,
    /// A token is remembered until it has won, its run has ended, or its lease was spent.
    F13,
    /// A lease that ends later than it can is cut.
    F19,
    /// Answers say when the leases of other unfinished runs end.
    G03,
    /// A takeover is on the caller's lease length, not on the holder's before.
    T01,
    /// A job's slots are asked for oldest first, none while an older one is unanswered.
    T07,
}

impl Mend {
    /// All of them, in the order of the documentation.
    pub const ALL: [Mend; 9] = [
        Mend::F01,
        Mend::F02,
        Mend::F08,
        Mend::F10,
        Mend::F13,
        Mend::F19,
        Mend::G03,
        Mend::T01,
        Mend::T07,
    ];
}

#[cfg(debug_assertions)]
thread_local! {
    static OUT: Cell<Option<Mend>> = const { Cell::new(None) };
}

/// Whether this mend has been taken out on this thread.
#[cfg(debug_assertions)]
pub fn is_out(mend: Mend) -> bool {
    OUT.with(Cell::get) == Some(mend)
}

/// Never, in a release build.
#[cfg(not(debug_assertions))]
pub const fn is_out(_mend: Mend) -> bool {
    false
}

/// Takes a mend out on this thread until the guard is dropped.
#[cfg(debug_assertions)]
pub fn take_out(mend: Mend) -> TakenOut {
    OUT.with(|out| out.set(Some(mend)));
    TakenOut(())
}

/// Puts the mend back when it is dropped.
#[cfg(debug_assertions)]
pub struct TakenOut(());

#[cfg(debug_assertions)]
impl Drop for TakenOut {
    fn drop(&mut self) {
        OUT.with(|out| out.set(None));
    }
}
