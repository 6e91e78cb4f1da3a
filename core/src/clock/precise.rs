//! The last milliseconds before an instant.
//!
//! The runtime's timers count whole milliseconds and are rounded up, so they are one to two late
//! (<https://docs.rs/tokio/latest/tokio/time/fn.sleep.html>). A thread that sleeps is woken within
//! a tenth of one, so one waits out the rest.

use std::time::Duration;

use tokio::sync::Semaphore;

/// So long before the instant the runtime's own timer is to have ended, or it is late.
pub(super) const LAST: Duration = Duration::from_millis(3);

/// How many threads of this process may sleep at once: one that nobody waits for any more is only
/// given back at the end of its sleep.
const THREADS: usize = 8;

static PLACES: Semaphore = Semaphore::const_new(THREADS);

/// Sleeps for at least so long, which is [`LAST`] at most.
pub(super) async fn sleep(rest: Duration) {
    if rest.is_zero() {
        return;
    }
    let timer = tokio::time::sleep(rest);
    let Ok(place) = PLACES.try_acquire() else { return timer.await };
    let thread = tokio::task::spawn_blocking(move || {
        std::thread::sleep(rest);
        drop(place);
    });
    // The runtime may have no thread free: then its timer is what there is.
    tokio::select! {
        biased;
        Ok(()) = thread => {}
        () = timer => {}
    }
}

#[cfg(test)]
#[path = "precise_tests.rs"]
mod tests;
