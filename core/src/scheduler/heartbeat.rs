//! Heartbeats: leases are renewed on a thread of their own.
//!
//! Neither the host's event loop nor its interpreter lock is needed, so a handler that blocks
//! either keeps its lease. On a manual clock it is a task instead of a thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::backend::contract::Heartbeat;
use crate::backend::guard::Guard;
use crate::clock::{ActivityGuard, Clock, Wake, busy};
use crate::error::{Error, Result};
use crate::lease::hold::{deadline, heartbeat_every};
use crate::scheduler::driver::{Mailbox, Message};
use crate::scheduler::outbox::chunks;
use crate::scheduler::timers::RunId;

/// What the heart has to say of a run.
pub(super) enum BeatNews {
    /// The store answered false: the run is somebody else's, or has ended.
    Refused,
    /// The holder's deadline has passed without a renewal.
    Expired,
    /// A heartbeat got no answer.
    Failed(Error),
}

enum Order {
    Hold(RunId, Held),
    Let(RunId),
    Answers(i64, Vec<(RunId, i64, Result<bool>)>),
    Stop,
}

struct Note {
    order: Order,
    busy: Option<ActivityGuard>,
}

/// A run whose lease is kept alive.
pub(super) struct Held {
    pub(super) beat: Heartbeat,
    /// Until when it may be trusted (ms, monotonic).
    pub(super) deadline: i64,
    next: i64,
    in_flight: bool,
}

impl Held {
    /// A lease that was granted by a call sent at `sent` (ms, monotonic).
    pub(super) fn new(beat: Heartbeat, sent: i64) -> Held {
        let lease = beat.lease_ms;
        let next = sent + heartbeat_every(lease);
        Held { beat, deadline: deadline(sent, lease), next, in_flight: false }
    }
}

/// The handle of the thread that renews leases.
pub(super) struct Heart {
    orders: mpsc::UnboundedSender<Note>,
    clock: Arc<dyn Clock>,
}

impl Heart {
    /// Starts the thread, or the task on a manual clock; a store without leases needs neither.
    pub(super) fn start(guard: Guard, clock: Arc<dyn Clock>, mailbox: Mailbox) -> Heart {
        let (orders, inbox) = mpsc::unbounded_channel();
        let heart = Heart { orders: orders.clone(), clock: clock.clone() };
        if !guard.has_leases() {
            return heart;
        }
        let beating =
            Beating { guard, clock: clock.clone(), mailbox, orders, held: BTreeMap::new() };
        if clock.is_manual() {
            tokio::spawn(beating.live(inbox));
        } else {
            spawn_thread(beating, inbox);
        }
        heart
    }

    /// Keeps the lease of a run.
    pub(super) fn hold(&self, run: RunId, held: Held) {
        self.order(Order::Hold(run, held));
    }

    /// Lets go of a run.
    pub(super) fn let_go(&self, run: RunId) {
        self.order(Order::Let(run));
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: Order) {
        // Without leases nobody listens.
        let _nobody = self.orders.send(Note { order, busy: busy(&*self.clock) });
    }
}

fn spawn_thread(beating: Beating, inbox: mpsc::UnboundedReceiver<Note>) {
    let mailbox = beating.mailbox.clone();
    let thread = std::thread::Builder::new().name("anarchon-heart".to_owned()).spawn(move || {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(beating.live(inbox)),
            Err(error) => {
                let text = format!("the runtime of the heartbeats cannot be built: {error}");
                let error = Error::unavailable(text);
                beating.mailbox.post(Message::Failed { job: None, error });
            }
        }
    });
    if let Err(error) = thread {
        let error = Error::unavailable(format!("no thread for the heartbeats: {error}"));
        mailbox.post(Message::Failed { job: None, error });
    }
}

struct Beating {
    guard: Guard,
    clock: Arc<dyn Clock>,
    mailbox: Mailbox,
    orders: mpsc::UnboundedSender<Note>,
    held: BTreeMap<RunId, Held>,
}

impl Beating {
    async fn live(mut self, mut inbox: mpsc::UnboundedReceiver<Note>) {
        let mut working: Vec<ActivityGuard> = Vec::new();
        loop {
            self.expire();
            self.send_due();
            working.clear();
            let wake = self.wake();
            let clock = self.clock.clone();
            tokio::select! {
                biased;
                note = inbox.recv() => {
                    let Some(note) = note else { return };
                    working.extend(note.busy);
                    if self.take(note.order) {
                        return;
                    }
                    while let Ok(note) = inbox.try_recv() {
                        working.extend(note.busy);
                        if self.take(note.order) {
                            return;
                        }
                    }
                }
                guard = clock.sleep(wake) => working.extend(guard),
            }
        }
    }

    /// True when it is time to end.
    fn take(&mut self, order: Order) -> bool {
        match order {
            Order::Hold(run, held) => {
                self.held.insert(run, held);
            }
            Order::Let(run) => {
                self.held.remove(&run);
            }
            Order::Answers(sent, answers) => {
                for (run, lease_ms, answer) in answers {
                    self.answered(run, sent, lease_ms, answer);
                }
            }
            Order::Stop => return true,
        }
        false
    }

    fn answered(&mut self, run: RunId, sent: i64, lease_ms: i64, answer: Result<bool>) {
        let now = self.clock.mono_ms();
        let Some(held) = self.held.get_mut(&run) else { return };
        held.in_flight = false;
        match answer {
            Ok(true) => {
                held.deadline = held.deadline.max(deadline(sent, lease_ms));
                held.next = (sent + heartbeat_every(lease_ms)).max(now + 1);
            }
            Ok(false) => {
                self.held.remove(&run);
                self.mailbox.post(Message::Beat(run, BeatNews::Refused));
            }
            Err(error) => {
                // One failed renewal is tried again until the lease ends by our own counting.
                held.next = now + (lease_ms / 20).max(20);
                self.mailbox.post(Message::Beat(run, BeatNews::Failed(error)));
            }
        }
    }

    fn expire(&mut self) {
        let now = self.clock.mono_ms();
        let expired = self.held.iter().filter(|(_, held)| held.deadline <= now);
        let expired: Vec<RunId> = expired.map(|(run, _)| *run).collect();
        for run in expired {
            self.held.remove(&run);
            self.mailbox.post(Message::Beat(run, BeatNews::Expired));
        }
    }

    fn wake(&self) -> Wake {
        let times = self
            .held
            .values()
            .map(|held| if held.in_flight { held.deadline } else { held.deadline.min(held.next) });
        Wake { wall_ms: None, mono_ms: times.min() }
    }

    /// Heartbeats that fall due within a moment of each other travel together.
    fn send_due(&mut self) {
        let now = self.clock.mono_ms();
        let due = |held: &Held| !held.in_flight && held.next <= now;
        if !self.held.values().any(due) {
            return;
        }
        let soon = |held: &Held| now + (held.beat.lease_ms / 30).min(250);
        let mut runs = Vec::new();
        for (run, held) in &mut self.held {
            if !held.in_flight && held.next <= soon(held) {
                held.in_flight = true;
                runs.push((*run, held.beat.clone()));
            }
        }
        for runs in chunks(runs, self.guard.sent_together()) {
            self.send(runs);
        }
    }

    fn send(&self, runs: Vec<(RunId, Heartbeat)>) {
        let working = busy(&*self.clock);
        let (guard, clock, orders) = (self.guard.clone(), self.clock.clone(), self.orders.clone());
        tokio::spawn(async move {
            let sent = clock.mono_ms();
            let beats: Vec<Heartbeat> = runs.iter().map(|(_, beat)| beat.clone()).collect();
            let answers = guard.heartbeats(&beats).await;
            let answers = runs.into_iter().zip(answers);
            let answers =
                answers.map(|((run, beat), answer)| (run, beat.lease_ms, answer)).collect();
            let note = Note { order: Order::Answers(sent, answers), busy: busy(&*clock) };
            let _gone = orders.send(note);
            drop(working);
        });
    }
}
