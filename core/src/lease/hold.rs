//! How long a holder may trust its lease.
//!
//! The store counts a lease from its own clock; the holder counts from the monotonic instant just
//! *before* it sent the call, less a margin. So the holder always stops first, however long the
//! answer travelled and however far the two clocks are apart (given that they run at about the same
//! rate). The idea is that of leader election with a trust period: C. Gray and D. Cheriton,
//! "Leases: an efficient fault-tolerant mechanism for distributed file cache consistency", 1989.

/// The monotonic instant (ms) up to which a holder may work on a lease of `lease_ms` that was
/// granted or renewed by a call sent at `sent` (ms, monotonic).
pub const fn deadline(sent: i64, lease_ms: i64) -> i64 {
    sent + lease_ms - margin(lease_ms)
}

/// What is taken off a lease for the sake of clock rates and of slow reactions (ms).
pub const fn margin(lease_ms: i64) -> i64 {
    let tenth = lease_ms / 10;
    if tenth > 100 { tenth } else { 100 }
}

/// How often a lease is renewed (ms).
pub const fn heartbeat_every(lease_ms: i64) -> i64 {
    lease_ms / 3
}

/// How long a single call to the store may take (ms): 5 s, at most a sixth of the lease. (One about a
/// lease may take up to three times as long where those before it got no answer.)
pub const fn call_deadline(lease_ms: Option<i64>) -> i64 {
    match lease_ms {
        Some(lease_ms) if lease_ms / 6 < 5_000 => lease_ms / 6,
        _ => 5_000,
    }
}

#[cfg(test)]
mod tests {
    use super::{deadline, heartbeat_every};

    #[test]
    fn a_holder_stops_a_tenth_of_the_lease_before_the_store_lets_go() {
        assert_eq!(deadline(1_000, 30_000), 28_000);
    }

    #[test]
    fn a_short_lease_still_has_a_margin_of_a_hundred_milliseconds() {
        assert_eq!(deadline(1_000, 1_000 - 100), 1_800);
    }

    #[test]
    fn two_heartbeats_may_fail_before_a_lease_is_over() {
        assert!(heartbeat_every(30_000) * 2 < deadline(0, 30_000));
    }
}
