//! The calls that scripts are made of.

use std::fmt;

use crate::backend::contract::{ClaimKind, Overlap};
use crate::lease::model::Status;
use crate::testing::conformance::bed::{LONG, SHORT, instance};

/// How long a lease is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// Certainly alive while the script runs.
    Long,
    /// Certainly over by the next step.
    Short,
}

impl Lease {
    pub(super) fn ms(self) -> i64 {
        match self {
            Lease::Long => LONG,
            Lease::Short => SHORT,
        }
    }
}

/// One call of an instance. Slots are numbered: those from 0 on have come since the job was
/// registered, those below 0 came before, those from [`AHEAD`] on lie hours ahead.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Register {
        schedule: u8,
        history_size: i64,
        keep_ms: i64,
        keep_slots: i64,
    },
    Claim {
        by: usize,
        slot: i64,
        token: u32,
        kind: ClaimKind,
        lease: Lease,
        overlap: Overlap,
        max_takeovers: i64,
        too_late: bool,
    },
    Manual {
        by: usize,
        slot: i64,
        token: u32,
        lease: Lease,
        overlap: Overlap,
        force: bool,
        too_old: bool,
    },
    Heartbeat {
        by: usize,
        slot: i64,
        token: u32,
        lease: Lease,
    },
    Finish {
        by: usize,
        slot: i64,
        token: u32,
        status: Status,
    },
    Release {
        by: usize,
        slot: i64,
        token: u32,
    },
    Cancel {
        slot: i64,
        manual: bool,
    },
    Pause,
    Resume,
    Missed {
        from: i64,
        to: i64,
    },
    Forget,
    Pass,
    Active,
    Survey,
    History {
        limit: usize,
    },
}

/// The first slot that lies ahead.
pub(super) const AHEAD: i64 = 1_000;
/// The first slot that is claimed with a `maxEarlyMs` of 2 s only.
pub(super) const TOO_FAR: i64 = 2_000;
/// Slots that have come, from 0.
pub(super) const SLOTS: i64 = 20;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = |lease: &Lease| match lease {
            Lease::Long => "an hour",
            Lease::Short => "1 ms",
        };
        match self {
            Step::Register { schedule, history_size, keep_ms, keep_slots } => write!(
                f,
                "the job is registered with schedule {schedule}, historySize {history_size}, \
                 keepMs {keep_ms}, keepSlots {keep_slots}"
            ),
            Step::Claim {
                by,
                slot,
                token,
                kind,
                lease: length,
                overlap,
                max_takeovers,
                too_late,
            } => {
                let kind = match kind {
                    ClaimKind::Slot => "claims",
                    ClaimKind::Backup => "claims as a backup",
                    ClaimKind::CatchUp => "claims as a catch-up",
                };
                write!(f, "{} {kind} slot {slot} with token {token}, ", instance(*by))?;
                write!(f, "leaseMs {}, maxTakeovers {max_takeovers}", lease(length))?;
                let skip = if *overlap == Overlap::Skip { ", overlap skip" } else { "" };
                write!(f, "{skip}{}", if *too_late { ", notAfterMs in the past" } else { "" })
            }
            Step::Manual { by, slot, token, lease: length, overlap, force, too_old } => {
                write!(
                    f,
                    "{} asks for a manual run of slot {slot} with token {token}, ",
                    instance(*by)
                )?;
                write!(f, "leaseMs {}", lease(length))?;
                let skip = if *overlap == Overlap::Skip { ", overlap skip" } else { "" };
                let old = if *too_old { ", two days ago" } else { "" };
                write!(f, "{skip}{}{old}", if *force { ", forced" } else { "" })
            }
            Step::Heartbeat { by, slot, token, lease: length } => write!(
                f,
                "{} sends a heartbeat for slot {slot} with token {token}, leaseMs {}",
                instance(*by),
                lease(length)
            ),
            Step::Finish { by, slot, token, status } => {
                write!(f, "{} finishes slot {slot} with token {token} as {status}", instance(*by))
            }
            Step::Release { by, slot, token } => {
                write!(f, "{} releases slot {slot} with token {token}", instance(*by))
            }
            Step::Cancel { slot, manual } => {
                let which = if *manual { "manual" } else { "scheduled" };
                write!(f, "the {which} run of slot {slot} is cancelled")
            }
            Step::Pause => f.write_str("the job is paused"),
            Step::Resume => f.write_str("the job is resumed"),
            Step::Missed { from, to } => write!(f, "slots {from} to {to} are reported as missed"),
            Step::Forget => f.write_str("the job is forgotten"),
            Step::Pass => f.write_str("a moment passes"),
            Step::Active => f.write_str("the unfinished runs are listed (active)"),
            Step::Survey => f.write_str("the job is surveyed"),
            Step::History { limit } => write!(f, "the history is read, limit {limit}"),
        }
    }
}

pub(super) const ALL: Step = Step::History { limit: 100 };

pub(super) fn keeping(history_size: i64) -> Step {
    Step::Register { schedule: 1, history_size, keep_ms: 0, keep_slots: 0 }
}

/// A claim by the instance with the number of the token.
pub(super) fn claim(slot: i64, token: u32) -> Step {
    let by = usize::try_from(token).unwrap_or(0);
    Step::Claim {
        by,
        slot,
        token,
        kind: ClaimKind::Slot,
        lease: Lease::Long,
        overlap: Overlap::Allow,
        max_takeovers: 2,
        too_late: false,
    }
}

/// The same with a lease that is over at once.
pub(super) fn short(slot: i64, token: u32) -> Step {
    with(claim(slot, token), |claim| claim.lease = Lease::Short)
}

pub(super) fn backup(slot: i64, token: u32) -> Step {
    with(claim(slot, token), |claim| claim.kind = ClaimKind::Backup)
}

pub(super) fn catch_up(slot: i64, token: u32) -> Step {
    with(claim(slot, token), |claim| claim.kind = ClaimKind::CatchUp)
}

pub(super) fn skip(step: Step) -> Step {
    with(step, |claim| claim.overlap = Overlap::Skip)
}

/// The part of a claim that scripts vary.
pub(super) struct Varied {
    pub(super) kind: ClaimKind,
    pub(super) lease: Lease,
    pub(super) overlap: Overlap,
    pub(super) max_takeovers: i64,
    pub(super) too_late: bool,
}

pub(super) fn with(step: Step, vary: impl FnOnce(&mut Varied)) -> Step {
    let Step::Claim { by, slot, token, kind, lease, overlap, max_takeovers, too_late } = step
    else {
        return step;
    };
    let mut varied = Varied { kind, lease, overlap, max_takeovers, too_late };
    vary(&mut varied);
    let Varied { kind, lease, overlap, max_takeovers, too_late } = varied;
    Step::Claim { by, slot, token, kind, lease, overlap, max_takeovers, too_late }
}

pub(super) fn takeovers(step: Step, allowed: i64) -> Step {
    with(step, |claim| claim.max_takeovers = allowed)
}

pub(super) fn late(step: Step) -> Step {
    with(step, |claim| claim.too_late = true)
}

pub(super) fn by_hand(slot: i64, token: u32) -> Step {
    let by = usize::try_from(token).unwrap_or(0);
    let (lease, overlap) = (Lease::Long, Overlap::Allow);
    Step::Manual { by, slot, token, lease, overlap, force: false, too_old: false }
}

pub(super) fn beat(slot: i64, token: u32, lease: Lease) -> Step {
    Step::Heartbeat { by: 0, slot, token, lease }
}

pub(super) fn finish_as(slot: i64, token: u32, status: Status) -> Step {
    Step::Finish { by: 0, slot, token, status }
}

pub(super) fn finish(slot: i64, token: u32) -> Step {
    finish_as(slot, token, Status::Succeeded)
}

pub(super) fn release(slot: i64, token: u32) -> Step {
    Step::Release { by: 0, slot, token }
}
