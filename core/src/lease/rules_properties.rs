//! The invariants of claims and leases on random histories, at the level of the rules.
//!
//! Two or three callers ask about one job. Their messages are lost, delayed and duplicated, they
//! crash and forget, and the store's clock is set back. What each of them may believe is kept
//! beside what is stored, and after every decision the two are compared.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use crate::backend::contract::{
    ClaimInput, ClaimKind, ClaimOutcome, JobLimits, OutcomeKind, Overlap, RunClaim,
};
use crate::lease::hold;
use crate::lease::model::{JobState, RunKey, Status};
use crate::lease::rules::{self, Answer, Call};
#[cfg(debug_assertions)]
use crate::mends::{self, Mend};
use crate::random::Random;

const PERIOD: i64 = 100;
const MAX_LATE: i64 = 400;
const KEEP: i64 = 6_000;
const START: i64 = 1_000_000;

/// What a caller may believe about a run that it was granted.
struct Held {
    token: String,
    deadline: i64,
    lease_ms: i64,
}

#[derive(Default)]
struct Caller {
    tokens: BTreeMap<i64, String>,
    held: BTreeMap<RunKey, Held>,
}

/// A message under way; `reply` once it was decided.
struct Message {
    caller: usize,
    call: Call,
    sent: i64,
    reply: Option<Answer>,
}

struct World {
    rng: Rng,
    state: JobState,
    mono: i64,
    offset: i64,
    set_back: bool,
    overlap: Overlap,
    max_takeovers: i64,
    history_size: i64,
    callers: Vec<Caller>,
    under_way: BTreeMap<(i64, u64), Message>,
    messages: u64,
    tokens: u64,
    /// Whether the last call changed what is stored: trimming follows changes only.
    changed: bool,
    // What has been seen.
    attempts: BTreeMap<RunKey, i64>,
    fence: i64,
    recorded: BTreeSet<i64>,
    spent: BTreeSet<String>,
    finished: BTreeMap<String, (Status, i64)>,
    manual_slots: BTreeMap<String, i64>,
}

type Checked = Result<(), String>;

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Random::generator(seed);
        let callers = (0..rng.usize(2..=3)).map(|_| Caller::default()).collect();
        let mut world = World {
            state: JobState::default(),
            mono: START,
            offset: 0,
            set_back: false,
            overlap: if rng.bool() { Overlap::Skip } else { Overlap::Allow },
            max_takeovers: rng.i64(0..=2),
            history_size: rng.i64(1..=5),
            callers,
            under_way: BTreeMap::new(),
            messages: 0,
            tokens: 0,
            changed: false,
            attempts: BTreeMap::new(),
            fence: 0,
            recorded: BTreeSet::new(),
            spent: BTreeSet::new(),
            finished: BTreeMap::new(),
            manual_slots: BTreeMap::new(),
            rng,
        };
        let limits = JobLimits {
            max_late_ms: MAX_LATE,
            history_size: world.history_size,
            keep_ms: Some(KEEP),
            schedule: Some("every:100".to_owned()),
            ..JobLimits::default()
        };
        world.apply(&Call::Register(limits));
        world
    }

    fn now(&self) -> i64 {
        self.mono + self.offset
    }

    fn apply(&mut self, call: &Call) -> Answer {
        let decision = rules::decide(&self.state, call, self.now());
        rules::apply(&mut self.state, &decision.changes);
        self.changed = !decision.changes.is_empty();
        decision.answer
    }

    fn new_token(&mut self) -> String {
        self.tokens += 1;
        format!("t{}", self.tokens)
    }

    fn input(&self, caller: usize, slot: i64, token: String) -> ClaimInput {
        ClaimInput {
            job: "job".to_owned(),
            slot,
            token,
            instance_id: caller.to_string(),
            history_size: self.history_size,
            history_ttl_ms: None,
            // Replicas may be on different lease lengths; each of them stays with its own.
            lease_ms: Some(if caller == 0 { 3_000 } else { 1_000 }),
            overlap: Some(self.overlap),
            force: None,
            max_early_ms: Some(50),
            asked_at: Some(self.now()),
        }
    }

    fn claim(&mut self, caller: usize, slot: i64, kind: ClaimKind) {
        let known = self.callers[caller].tokens.get(&slot).cloned();
        let token = known.unwrap_or_else(|| self.new_token());
        self.callers[caller].tokens.insert(slot, token.clone());
        let input = self.input(caller, slot, token);
        let not_after_ms = (kind == ClaimKind::Slot).then_some(slot + MAX_LATE);
        let max_takeovers = self.max_takeovers;
        self.send(caller, Call::Claim(RunClaim { input, kind, max_takeovers, not_after_ms }));
    }

    /// A message may be lost, may be late, and may come twice.
    fn send(&mut self, caller: usize, call: Call) {
        let copies = match self.rng.u8(0..10) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        for copy in 0..copies {
            let longest = if copy == 1 || self.rng.u8(0..8) == 0 { 2_500 } else { 30 };
            let at = self.mono + self.rng.i64(0..=longest);
            let message = Message { caller, call: call.clone(), sent: self.mono, reply: None };
            self.post(at, message);
        }
    }

    fn post(&mut self, at: i64, message: Message) {
        self.messages += 1;
        self.under_way.insert((at, self.messages), message);
    }

    fn act(&mut self) {
        let caller = self.rng.usize(0..self.callers.len());
        let newest = self.now() - self.now().rem_euclid(PERIOD);
        let any_held = {
            let keys: Vec<RunKey> = self.callers[caller].held.keys().copied().collect();
            (!keys.is_empty()).then(|| keys[self.rng.usize(0..keys.len())])
        };
        match (self.rng.u8(0..20), any_held) {
            (0..=5, _) => {
                let slot = newest - PERIOD * self.rng.i64(-1..=4);
                self.claim(caller, slot, ClaimKind::Slot);
            }
            (6, _) => {
                let slot = newest - PERIOD * self.rng.i64(4..=12);
                self.claim(caller, slot, ClaimKind::CatchUp);
            }
            (7..=9, _) => {
                let slots: Vec<i64> =
                    self.state.unfinished().filter(|run| !run.manual).map(|r| r.slot).collect();
                if !slots.is_empty() {
                    let slot = slots[self.rng.usize(0..slots.len())];
                    self.claim(caller, slot, ClaimKind::Backup);
                }
            }
            (10, _) => {
                let token = self.new_token();
                let slot = self.now();
                let input = self.input(caller, slot, token);
                self.send(caller, Call::ClaimManual(input));
            }
            (11, _) => self.send(caller, Call::Survey),
            (12, _) if self.rng.u8(0..6) == 0 => self.callers[caller] = Caller::default(),
            (_, Some(key)) => self.act_as_holder(caller, key),
            _ => {}
        }
    }

    fn act_as_holder(&mut self, caller: usize, key: RunKey) {
        let held = &self.callers[caller].held[&key];
        let (slot, token, lease_ms) = (key.slot, held.token.clone(), held.lease_ms);
        match self.rng.u8(0..10) {
            0..=4 => self.send(caller, Call::Heartbeat { slot, token, lease_ms }),
            5..=6 => {
                self.callers[caller].held.remove(&key);
                self.send(caller, Call::Release { slot, token });
            }
            _ => {
                self.callers[caller].held.remove(&key);
                let call = Call::Finish { slot, token, status: Status::Succeeded, result: None };
                self.send(caller, call.clone());
                self.send(caller, call);
            }
        }
    }

    fn step(&mut self) -> Checked {
        self.act();
        let until = self.mono + self.rng.i64(0..=60);
        while let Some(entry) = self.under_way.first_entry() {
            let (at, _) = *entry.key();
            if at > until {
                break;
            }
            let message = entry.remove();
            self.mono = self.mono.max(at);
            self.give_up_what_is_over();
            match message.reply {
                Some(_) => self.read(message),
                None => self.execute(message)?,
            }
        }
        self.mono = until;
        self.give_up_what_is_over();
        if !self.set_back && self.rng.u16(0..400) == 0 {
            self.set_back = true;
            self.offset -= 3_600_000;
        }
        Ok(())
    }

    fn give_up_what_is_over(&mut self) {
        let mono = self.mono;
        for caller in &mut self.callers {
            caller.held.retain(|_, held| mono < held.deadline);
        }
    }

    fn execute(&mut self, mut message: Message) -> Checked {
        let answer = self.apply(&message.call);
        self.check_answer(&message, &answer)?;
        self.check_state()?;
        if self.rng.u8(0..10) > 0 {
            let longest = if self.rng.u8(0..8) == 0 { 1_500 } else { 20 };
            let at = self.mono + self.rng.i64(0..=longest);
            message.reply = Some(answer);
            self.post(at, message);
        }
        Ok(())
    }

    /// What the caller makes of the answer, by the text of the rules.
    fn read(&mut self, message: Message) {
        let (mono, sent) = (self.mono, message.sent);
        match (&message.call, message.reply) {
            (Call::Claim(RunClaim { input, .. }), Some(Answer::Outcome(outcome))) => {
                self.read_claim(message.caller, input, &outcome, sent, false);
            }
            (Call::ClaimManual(input), Some(Answer::Outcome(outcome))) => {
                self.read_claim(message.caller, input, &outcome, sent, true);
            }
            (Call::Heartbeat { slot, token, lease_ms }, Some(answer)) => {
                let caller = &mut self.callers[message.caller];
                let found = caller
                    .held
                    .iter_mut()
                    .find(|(key, held)| key.slot == *slot && held.token == *token);
                if let Some((key, held)) = found {
                    let key = *key;
                    if answer.is_true() {
                        held.deadline = held.deadline.max(hold::deadline(sent, *lease_ms));
                    } else {
                        caller.held.remove(&key);
                    }
                }
            }
            _ => {}
        }
        debug_assert!(sent <= mono, "an answer is read after its question was sent");
    }

    fn read_claim(
        &mut self,
        caller: usize,
        input: &ClaimInput,
        outcome: &ClaimOutcome,
        sent: i64,
        manual: bool,
    ) {
        let slot = outcome.slot.filter(|_| manual).unwrap_or(input.slot);
        let lease_ms = input.lease_ms.unwrap_or_default();
        let own = &mut self.callers[caller];
        let spent = outcome.kind == OutcomeKind::Running && outcome.left_ms == Some(0);
        let answered = matches!(outcome.kind, OutcomeKind::Won | OutcomeKind::Done) || spent;
        if !manual && answered && own.tokens.get(&slot) == Some(&input.token) {
            own.tokens.remove(&slot);
        } else if !manual && answered {
            // A late answer to an ask that this caller has forgotten.
            return;
        }
        if outcome.kind == OutcomeKind::Won {
            let deadline = hold::deadline(sent, lease_ms);
            if self.mono < deadline {
                let held = Held { token: input.token.clone(), deadline, lease_ms };
                own.held.insert(RunKey { slot, manual }, held);
            } else {
                self.send(caller, Call::Release { slot, token: input.token.clone() });
            }
        }
    }

    fn check_answer(&mut self, message: &Message, answer: &Answer) -> Checked {
        match (&message.call, answer) {
            (Call::Claim(claim), Answer::Outcome(outcome)) => {
                self.check_next(outcome)?;
                self.check_claim(message.caller, claim, outcome)
            }
            (Call::ClaimManual(input), Answer::Outcome(outcome)) => {
                let slot = outcome.slot.unwrap_or(input.slot);
                if outcome.kind != OutcomeKind::Won {
                    return Ok(());
                }
                let known = *self.manual_slots.entry(input.token.clone()).or_insert(slot);
                demand(known == slot, || {
                    format!("7: the repeat of a manual run moved it to {slot}")
                })?;
                self.check_grant(message.caller, RunKey::manual(slot), &input.token, outcome)
            }
            (Call::Finish { token, status, .. }, Answer::Bool(truth)) => {
                if let Some((before, at)) = self.finished.get(token)
                    && self.now() < at + KEEP
                    && self.now() >= *at
                {
                    return demand(*truth == (before == status), || {
                        "7: a repeated finish was answered otherwise".to_owned()
                    });
                }
                if *truth {
                    let end = (*status, self.now());
                    self.finished.insert(token.clone(), end);
                }
                Ok(())
            }
            (Call::Release { token, .. }, Answer::Bool(true)) => {
                self.spent.insert(token.clone());
                Ok(())
            }
            (Call::Heartbeat { token, .. }, Answer::Bool(true)) => {
                demand(!self.spent.contains(token), || "7: a spent lease was renewed".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_next(&self, outcome: &ClaimOutcome) -> Checked {
        let known = outcome.next_ms.is_some() || outcome.kind == OutcomeKind::Won;
        let others = self.state.unfinished().count() > 1;
        demand(known || !others, || {
            "3: other runs are unfinished and nobody hears of it".to_owned()
        })
    }

    fn check_claim(&mut self, caller: usize, claim: &RunClaim, outcome: &ClaimOutcome) -> Checked {
        let slot = claim.input.slot;
        if outcome.kind == OutcomeKind::Won {
            self.recorded.insert(slot);
            return self.check_grant(caller, RunKey::scheduled(slot), &claim.input.token, outcome);
        }
        let wanted = claim.kind == ClaimKind::Slot
            && !self.recorded.contains(&slot)
            && !self.set_back
            && claim.not_after_ms.is_some_and(|last| self.now() <= last);
        if self.state.runs.contains_key(&RunKey::scheduled(slot)) {
            self.recorded.insert(slot);
        }
        demand(!(wanted && outcome.kind == OutcomeKind::Late), || {
            format!("5: slot {slot} is still wanted and was refused as late")
        })
    }

    fn check_grant(
        &mut self,
        caller: usize,
        key: RunKey,
        token: &str,
        outcome: &ClaimOutcome,
    ) -> Checked {
        let (attempt, fence) = (outcome.attempt.unwrap_or(0), outcome.fence.unwrap_or(0));
        let run = self.state.runs.get(&key);
        demand(run.is_some_and(|run| run.token == token), || {
            format!("7: {key:?} was granted to {token}, which is not its holder's token")
        })?;
        let before = self.attempts.insert(key, attempt).unwrap_or(0);
        if attempt == before && fence <= self.fence {
            let spent = self.spent.contains(token);
            return demand(!spent, || format!("7: the spent lease of {token} came back"));
        }
        // A duplicate that is very late may take over anew, as an attempt of its own.
        self.spent.remove(token);
        demand(attempt == before + 1, || {
            format!("6: {key:?} was granted as attempt {attempt} after attempt {before}")
        })?;
        demand(fence > self.fence, || format!("6: fence {fence} after {}", self.fence))?;
        self.fence = fence;
        for (other, holder) in self.callers.iter().enumerate() {
            let alive = holder.held.get(&key).filter(|held| self.mono < held.deadline);
            if let Some(held) = alive.filter(|held| held.token != token) {
                return Err(format!(
                    "2: {key:?} was granted to {caller} at {}, and {other} may work until {}",
                    self.mono, held.deadline
                ));
            }
        }
        Ok(())
    }

    fn check_state(&mut self) -> Checked {
        let now = self.now();
        let open = self.state.unfinished().filter(|run| !run.is_lost(now)).count();
        demand(self.overlap == Overlap::Allow || open <= 1, || {
            format!("4: {open} runs of a job that skips are unfinished at once")
        })?;
        let floor = self.state.header.floor;
        for slot in &self.recorded {
            let kept = self.state.runs.contains_key(&RunKey::scheduled(*slot));
            demand(kept || *slot <= floor, || format!("5: slot {slot} has been forgotten"))?;
        }
        let old = self.state.runs.values().filter(|run| {
            let ended_at = run.ended_at.unwrap_or(i64::MAX - KEEP);
            run.slot.max(ended_at) + KEEP <= now
        });
        let old = i64::try_from(old.count()).unwrap_or(i64::MAX);
        demand(!self.changed || old <= self.history_size, || {
            format!("8: {old} old records are kept, {} are allowed", self.history_size)
        })
    }

    /// Everybody is gone; one that has heard of the job takes over what is left and ends it.
    fn check_end(&mut self) -> Checked {
        for _ in 0..4 {
            self.mono += 3_001;
            self.apply(&Call::Survey);
            let open: Vec<i64> = self.state.unfinished().map(|run| run.slot).collect();
            for slot in open {
                let token = self.new_token();
                let mut input = self.input(0, slot, token.clone());
                input.lease_ms = Some(1_000);
                let claim = RunClaim {
                    input,
                    kind: ClaimKind::Backup,
                    max_takeovers: 0,
                    not_after_ms: None,
                };
                if self.apply(&Call::Claim(claim)).into_outcome().kind == OutcomeKind::Won {
                    let status = Status::Succeeded;
                    self.apply(&Call::Finish { slot, token, status, result: None });
                }
            }
        }
        let open = self.state.unfinished().count();
        demand(open == 0, || format!("3: {open} runs never end"))
    }
}

fn demand(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

fn violation(seed: u64) -> Option<String> {
    let mut world = World::new(seed);
    for step in 0..300 {
        if let Err(what) = world.step() {
            return Some(format!("seed {seed}, step {step}: invariant {what}"));
        }
    }
    world.check_end().err().map(|what| format!("seed {seed}, end: invariant {what}"))
}

#[test]
fn the_invariants_hold_on_random_histories() {
    let replayed = std::env::var("ANARCHON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = replayed.map_or(0..300, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Some(what) = violation(seed) {
            panic!("{what}\nreplay: ANARCHON_SEED={seed} cargo test -p anarchon rules_properties");
        }
    }
}

#[cfg(debug_assertions)]
#[test]
fn without_a_mend_of_the_rules_an_invariant_breaks() {
    for mend in [Mend::F01, Mend::F02, Mend::F08, Mend::F19, Mend::G03, Mend::T01] {
        let _out = mends::take_out(mend);
        assert!(
            (0..2_000).any(|seed| violation(seed).is_some()),
            "{mend:?} can be taken out and no random history of 2000 shows it"
        );
    }
}
