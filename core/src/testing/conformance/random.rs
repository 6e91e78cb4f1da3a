//! Random histories, on a store and on the reference; what fails is made as short as it gets.

use crate::backend::contract::{ClaimKind, Overlap};
use crate::clock::{Clock, SystemClock};
use crate::lease::model::Status;
use crate::random::Random;
use crate::testing::conformance::bed::Bed;
use crate::testing::conformance::script::{Mismatch, play};
use crate::testing::conformance::step::{AHEAD, Lease, SLOTS, Step, TOO_FAR};
use crate::testing::conformance::{Case, CaseEnd, Halt, case};

pub(super) fn cases() -> Vec<Case> {
    vec![case!(
        true,
        "random histories, with lost answers and duplicated calls, go as the rules say",
        random_histories
    )]
}

async fn random_histories(bed: Bed) -> CaseEnd {
    for history in 0..bed.options.histories {
        let seed = bed.options.seed.wrapping_add(history as u64);
        let (registered, steps) = Writer::new(&bed, seed).write();
        if let Some(mismatch) = play(&bed, &registered, &steps).await? {
            let shortest = shrink(&bed, &registered, steps, mismatch).await?;
            let calls = shortest.trace.len();
            return Err(Halt::Failed(format!(
                "a random history (seed {seed}) went wrong; the shortest form of it, {calls} calls:\n{}",
                shortest.text()
            )));
        }
    }
    Ok(())
}

/// How long a failing history is tried to be made shorter (ms).
const SHRINKING_MS: i64 = 15_000;

/// Leaves out one call after the other, as long as something still goes wrong.
async fn shrink(
    bed: &Bed,
    registered: &Step,
    mut steps: Vec<Step>,
    mut mismatch: Mismatch,
) -> Result<Mismatch, Halt> {
    let until = SystemClock.mono_ms() + SHRINKING_MS;
    // What comes after the failing call did not matter.
    steps.truncate(mismatch.trace.len() - 1);
    let mut shorter = true;
    while shorter {
        shorter = false;
        for index in (0..steps.len()).rev() {
            if SystemClock.mono_ms() > until {
                return Ok(mismatch);
            }
            let mut fewer = steps.clone();
            fewer.remove(index);
            if let Some(found) = play(bed, registered, &fewer).await? {
                fewer.truncate(found.trace.len() - 1);
                (steps, mismatch, shorter) = (fewer, found, true);
                break;
            }
        }
    }
    Ok(mismatch)
}

/// Draws a history.
#[expect(clippy::struct_excessive_bools, reason = "one for each optional member of a store")]
struct Writer {
    random: Random,
    length: usize,
    instances: usize,
    overlap: Overlap,
    max_takeovers: i64,
    surveys: bool,
    manual: bool,
    cancels: bool,
    pauses: bool,
    forgets: bool,
    /// The next slot in order, where nearly all claims are those of one instance: a store may then
    /// know without reading what others wrote only now and then.
    next_slot: Option<i64>,
    next_token: u32,
    /// Claims so far: who holds or held which slot with which token.
    granted: Vec<(usize, i64, u32)>,
}

impl Writer {
    fn new(bed: &Bed, seed: u64) -> Writer {
        let random = Random::seeded(seed);
        let runs = bed.runs();
        Writer {
            length: bed.options.steps,
            instances: bed.clients.len().min(3),
            overlap: if random.up_to(1) == 0 { Overlap::Allow } else { Overlap::Skip },
            max_takeovers: random.up_to(2),
            surveys: runs.has_survey(),
            manual: runs.has_claim_manual(),
            cancels: runs.has_cancel(),
            pauses: runs.has_set_paused(),
            forgets: runs.has_forget(),
            next_slot: (random.up_to(2) == 0).then_some(0),
            next_token: 0,
            granted: Vec::new(),
            random,
        }
    }

    fn pick(&self, count: usize) -> usize {
        let last = i64::try_from(count).unwrap_or(1) - 1;
        usize::try_from(self.random.up_to(last)).unwrap_or(0)
    }

    fn chance(&self, one_in: i64) -> bool {
        self.random.up_to(one_in - 1) == 0
    }

    fn write(mut self) -> (Step, Vec<Step>) {
        let registered = self.register();
        let mut steps: Vec<Step> = Vec::new();
        while steps.len() < self.length {
            // A client that got no answer asks again; and a duplicate may arrive much later.
            if !steps.is_empty() && self.chance(5) {
                let back = self.pick(steps.len().min(8)) + 1;
                steps.push(steps[steps.len() - back].clone());
            }
            let step = self.step();
            steps.push(step);
        }
        steps.push(Step::Active);
        steps.push(Step::History { limit: 100 });
        (registered, steps)
    }

    fn register(&self) -> Step {
        Step::Register {
            schedule: u8::try_from(self.random.up_to(2)).unwrap_or(0),
            history_size: 1 + self.random.up_to(4),
            keep_ms: if self.chance(2) { 0 } else { 3_600_000 },
            keep_slots: self.random.up_to(2),
        }
    }

    fn lease(&self) -> Lease {
        if self.chance(3) { Lease::Short } else { Lease::Long }
    }

    fn slot(&self) -> i64 {
        match self.random.up_to(19) {
            0 => -1 - self.random.up_to(3),
            1 => AHEAD + self.random.up_to(1),
            2 => TOO_FAR,
            3..=9 => self.random.up_to(SLOTS - 1),
            _ => self.random.up_to(5),
        }
    }

    fn step(&mut self) -> Step {
        match self.random.up_to(29) {
            0..=9 => self.claim(),
            10..=12 if self.manual => self.by_hand(),
            10..=17 => self.as_holder(|by, slot, token, writer| Step::Heartbeat {
                by,
                slot,
                token,
                lease: writer.lease(),
            }),
            18..=20 => self.as_holder(|by, slot, token, writer| Step::Finish {
                by,
                slot,
                token,
                status: if writer.chance(3) { Status::Failed } else { Status::Succeeded },
            }),
            21 | 22 => self.as_holder(|by, slot, token, _| Step::Release { by, slot, token }),
            23 if self.cancels => {
                self.as_holder(|_, slot, _, writer| Step::Cancel { slot, manual: writer.chance(3) })
            }
            24 if self.pauses => {
                if self.chance(3) {
                    Step::Pause
                } else {
                    Step::Resume
                }
            }
            25 if self.surveys => Step::Survey,
            26 if self.forgets && self.chance(4) => Step::Forget,
            27 if self.chance(3) => self.register(),
            28 => Step::History { limit: 1 + self.pick(8) },
            _ => Step::Active,
        }
    }

    fn claim(&mut self) -> Step {
        let next_slot = self.next_slot.filter(|slot| *slot < SLOTS && !self.chance(5));
        if let Some(slot) = next_slot {
            self.next_slot = Some(slot + 1);
            return self.claim_of(0, slot, ClaimKind::Slot);
        }
        let takes_over = !self.granted.is_empty() && self.chance(2);
        let (slot, kind) = if takes_over {
            let (_, slot, _) = self.granted[self.pick(self.granted.len())];
            (slot, ClaimKind::Backup)
        } else {
            (self.slot(), if self.chance(4) { ClaimKind::CatchUp } else { ClaimKind::Slot })
        };
        let by = self.pick(self.instances);
        self.claim_of(by, slot, kind)
    }

    fn claim_of(&mut self, by: usize, slot: i64, kind: ClaimKind) -> Step {
        self.next_token += 1;
        let token = self.next_token;
        self.granted.push((by, slot, token));
        Step::Claim {
            by,
            slot,
            token,
            kind,
            lease: self.lease(),
            overlap: self.overlap,
            max_takeovers: self.max_takeovers,
            too_late: self.chance(12),
        }
    }

    fn by_hand(&mut self) -> Step {
        self.next_token += 1;
        let (by, token, slot) = (self.pick(self.instances), self.next_token, self.random.up_to(5));
        self.granted.push((by, slot, token));
        let (overlap, force) = (self.overlap, self.chance(3));
        Step::Manual { by, slot, token, lease: self.lease(), overlap, force, too_old: false }
    }

    /// A call of somebody who claimed something, whether or not it was granted.
    fn as_holder(&mut self, call: impl Fn(usize, i64, u32, &Writer) -> Step) -> Step {
        if self.granted.is_empty() {
            return self.claim();
        }
        let newest = self.granted.len().min(6);
        let (by, slot, token) = self.granted[self.granted.len() - 1 - self.pick(newest)];
        call(by, slot, token, self)
    }
}
