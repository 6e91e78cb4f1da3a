//! What a seed stands for: a fleet, its jobs, and what befalls them.

use anarchon::backend::contract::{CatchUp, Overlap};
use anarchon::random::Random;
use anarchon::scheduler::JobOptions;
use anarchon::testing::chaos::Faults;

/// How one instance sees a job.
#[derive(Clone, Debug)]
pub struct JobPlan {
    pub name: String,
    pub every_ms: i64,
    pub options: JobOptions,
    /// The longest that a handler takes (ms).
    pub takes_ms: i64,
    /// Of a hundred handlers so many go on when they are cancelled.
    pub stubborn: i64,
    /// Of a hundred handlers so many throw.
    pub throws: i64,
}

/// One instance.
#[derive(Clone, Debug)]
pub struct InstancePlan {
    pub places: i64,
    pub skew_ms: i64,
    pub jobs: Vec<JobPlan>,
}

/// What befalls a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Pause(usize),
    Resume(usize),
    Crash(usize),
    /// Whoever has a handler at work.
    CrashBusy,
    /// Whoever is down.
    RestartAll,
    Restart(usize),
    Stop(usize, i64),
    Network(usize, Faults),
    Skew(usize, i64),
    RunNow(usize, usize),
    PauseJob(usize, usize),
    ResumeJob(usize, usize),
    Redefine(usize, usize, i64),
    StepBack(i64),
}

/// What is tried most with this seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// A bit of everything.
    Mixed,
    /// Messages come late and twice, none is lost; instances crash.
    Duplicates,
    /// Instances are cut off for a while.
    Outages,
    /// Instances are stopped and go on, and answers are slow.
    Pauses,
    /// Few records are kept, and the asks for some slots get lost.
    Trimming,
    /// The clock is set back.
    SetBack,
    /// Replicas define the job differently, and only some make up for missed slots.
    Disagreement,
    /// Instances are stopped in good order and come back.
    Deploys,
}

impl Focus {
    /// The first seeds of this focus.
    pub fn seeds(self, count: u64) -> impl Iterator<Item = u64> {
        let first = Focus::ALL.iter().position(|focus| *focus == self).unwrap_or(0) as u64;
        (0..count).map(move |turn| first + turn * Focus::ALL.len() as u64)
    }

    const ALL: [Focus; 8] = [
        Focus::Mixed,
        Focus::Duplicates,
        Focus::Outages,
        Focus::Pauses,
        Focus::Trimming,
        Focus::SetBack,
        Focus::Disagreement,
        Focus::Deploys,
    ];
}

/// A fleet and its fate.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub focus: Focus,
    pub instances: Vec<InstancePlan>,
    /// After how long since the one before (ms).
    pub blows: Vec<(i64, Blow)>,
    /// All replicas say `skip` for the job.
    pub skip: Vec<bool>,
    /// All replicas define the job this way, from first to last.
    pub steady: bool,
}

/// A source of numbers.
pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Random::generator(seed))
    }

    /// A number in `[from, to]`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        self.0.i64(from..=to)
    }

    pub fn index(&mut self, count: usize) -> usize {
        self.0.usize(0..count)
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: i64) -> bool {
        self.between(1, 100) <= chance
    }
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let focus = Focus::ALL[usize::try_from(seed).unwrap_or(0) % Focus::ALL.len()];
        let jobs = if focus == Focus::Mixed { dice.between(1, 2) } else { 1 };
        let every: Vec<i64> = (0..jobs)
            .map(|_| match focus {
                Focus::Trimming => 1_000,
                Focus::Duplicates => 5_000,
                _ => dice.one_of(&[2_000, 3_000, 5_000]),
            })
            .collect();
        let often = if focus == Focus::Disagreement { 0 } else { 50 };
        let skip: Vec<bool> = (0..jobs).map(|_| dice.percent(often)).collect();
        let history: Vec<i64> = (0..jobs)
            .map(|_| if focus == Focus::Trimming { 1 } else { dice.one_of(&[1, 3, 20]) })
            .collect();
        let count =
            if matches!(focus, Focus::Mixed | Focus::Duplicates) { 3 } else { dice.between(2, 3) };
        let same_leases = matches!(focus, Focus::Trimming | Focus::Duplicates);
        let mixed_leases = !same_leases && dice.percent(60);
        let lease = match focus {
            Focus::Duplicates => 4_000,
            Focus::Trimming => 1_000,
            _ => dice.one_of(&[1_000, 2_000, 3_000]),
        };
        let mut instances = Vec::new();
        for _ in 0..count {
            let mut job_plans = Vec::new();
            for job in 0..every.len() {
                let lease = if mixed_leases { dice.one_of(&[1_000, 2_000, 4_000]) } else { lease };
                let options =
                    job_options(&mut dice, focus, lease, every[job], skip[job], history[job]);
                job_plans.push(JobPlan {
                    name: format!("job{job}"),
                    every_ms: every[job],
                    options,
                    takes_ms: match focus {
                        Focus::Trimming => 100,
                        Focus::Disagreement => dice.one_of(&[300, 1_500]),
                        Focus::Duplicates => 6_000,
                        _ => dice.one_of(&[300, 1_500, 6_000]),
                    },
                    stubborn: dice.one_of(&[0, 0, 30]),
                    throws: dice.one_of(&[0, 10]),
                });
            }
            instances.push(InstancePlan {
                places: dice.one_of(&[1, 2, 10]),
                skew_ms: if dice.percent(50) { 0 } else { dice.between(-3_000, 3_000) },
                jobs: job_plans,
            });
        }
        let mut plan = Plan { seed, focus, instances, blows: Vec::new(), skip, steady: true };
        plan.draw_blows(&mut dice);
        plan
    }

    fn draw_blows(&mut self, dice: &mut Dice) {
        let count = self.instances.len();
        for instance in 0..count {
            let faults = faults(dice, self.focus);
            self.blows.push((0, Blow::Network(instance, faults)));
        }
        if self.focus == Focus::Disagreement {
            let instance = count - 1;
            let every = dice.one_of(&[3_000, 7_000, 11_000]);
            self.blows.push((dice.between(3_000, 9_000), Blow::Redefine(instance, 0, every)));
            self.steady = false;
        }
        let mut set_back = self.focus == Focus::SetBack;
        for _ in 0..dice.between(6, 14) {
            let instance = dice.index(count);
            let job = dice.index(self.skip.len());
            let wait = dice.between(200, 9_000);
            let (usual, rare) = usual_blow(dice, self.focus, instance);
            let blow = match dice.between(1, 100) {
                1..=60 => usual,
                _ if self.focus == Focus::Trimming => continue,
                61..=75 => rare,
                76..=82 => Blow::RunNow(instance, job),
                83..=85 if self.focus == Focus::Mixed => Blow::PauseJob(instance, job),
                86..=90 if self.focus == Focus::Mixed => Blow::ResumeJob(instance, job),
                91..=93 => Blow::Skew(instance, dice.between(-2_000, 2_000)),
                94..=97 if self.focus != Focus::Disagreement => Blow::Restart(instance),
                98..=100 if self.focus == Focus::Mixed && count > 2 => {
                    self.steady = false;
                    Blow::Redefine(instance, job, dice.one_of(&[3_000, 4_000, 7_000]))
                }
                _ => Blow::Network(instance, faults(dice, self.focus)),
            };
            self.blows.push((wait, blow));
            if let Blow::Pause(_) = blow {
                self.blows.push((dice.between(100, 9_000), Blow::Resume(instance)));
            }
            if set_back && dice.percent(30) {
                set_back = false;
                let step = Blow::StepBack(dice.between(90_000, 150_000));
                self.blows.push((dice.between(0, 500), step));
                self.blows.push((dice.between(0, 800), Blow::CrashBusy));
            }
            if self.focus == Focus::Duplicates {
                self.blows.push((dice.between(2_000, 6_000), Blow::RestartAll));
            }
            if let Blow::Stop(..) = blow {
                self.blows.push((dice.between(500, 5_000), Blow::Restart(instance)));
            }
        }
    }
}

/// What befalls fleets of this focus most, and sometimes.
fn usual_blow(dice: &mut Dice, focus: Focus, instance: usize) -> (Blow, Blow) {
    let network = Blow::Network(instance, faults(dice, focus));
    let restart = Blow::Restart(instance);
    let crash = Blow::Crash(instance);
    match focus {
        Focus::Duplicates => (Blow::CrashBusy, Blow::RestartAll),
        Focus::SetBack => {
            if dice.percent(50) {
                (Blow::CrashBusy, restart)
            } else {
                (restart, crash)
            }
        }
        Focus::Disagreement => (Blow::CrashBusy, Blow::CrashBusy),
        Focus::Outages | Focus::Trimming => (network, crash),
        Focus::Pauses => (Blow::Pause(instance), network),
        Focus::Deploys => {
            let grace = dice.one_of(&[0, 500, 5_000]);
            (Blow::Stop(instance, grace), restart)
        }
        Focus::Mixed => {
            let grace = dice.one_of(&[0, 500, 5_000]);
            let busy = Blow::CrashBusy;
            let stop = Blow::Stop(instance, grace);
            let all = [Blow::Pause(instance), crash, busy, restart, stop, network];
            (dice.one_of(&all), dice.one_of(&all))
        }
    }
}

fn job_options(
    dice: &mut Dice,
    focus: Focus,
    lease: i64,
    every: i64,
    skip: bool,
    history: i64,
) -> JobOptions {
    let catch_up = match focus {
        Focus::Trimming => CatchUp::None,
        _ => dice.one_of(&[CatchUp::None, CatchUp::Latest, CatchUp::All]),
    };
    let skips = focus != Focus::Disagreement && dice.percent(30);
    let allow = if skips { Overlap::Skip } else { Overlap::Allow };
    let late = if focus == Focus::Trimming {
        dice.between(every * 3, every * 4)
    } else {
        dice.one_of(&[500, every, every * 3])
    };
    JobOptions {
        jitter_ms: Some(if focus == Focus::Trimming {
            0
        } else {
            dice.one_of(&[0, 100, every / 3])
        }),
        max_late_ms: Some(late),
        lease_ms: Some(lease),
        overlap: Some(if skip { Overlap::Skip } else { allow }),
        catch_up: Some(catch_up),
        catch_up_limit: Some(3),
        max_takeovers: Some(match focus {
            Focus::Duplicates => dice.between(1, 2),
            _ => dice.between(0, 2),
        }),
        history_size: Some(history),
        timeout_ms: dice.percent(15).then_some(2_500),
        abandon_after_ms: Some(1_000),
        ..JobOptions::default()
    }
}

/// How an instance's network is, for a while.
fn faults(dice: &mut Dice, focus: Focus) -> Faults {
    let quiet = Faults { short_ms: 10, long_ms: 200, ..Faults::default() };
    let rough = Faults {
        lose_request: 80,
        lose_reply: 80,
        duplicate: 80,
        delay: 60,
        short_ms: 30,
        long_ms: 4_000,
        ..Faults::default()
    };
    match focus {
        Focus::Duplicates => {
            Faults { duplicate: 900, short_ms: 10, long_ms: 5_000, ..Faults::default() }
        }
        Focus::Outages => match dice.between(1, 4) {
            1 => Faults { cut_off: true, ..quiet },
            2 => Faults { lose_reply: 500, ..quiet },
            3 => Faults { lose_request: 400, lose_reply: 200, ..quiet },
            _ => quiet,
        },
        Focus::Pauses => Faults { delay: 150, short_ms: 60, long_ms: 3_000, ..Faults::default() },
        Focus::Trimming => Faults { lost_slots: 7, duplicate: 100, ..quiet },
        Focus::SetBack => quiet,
        Focus::Disagreement => quiet,
        Focus::Deploys => Faults { duplicate: 600, long_ms: 3_000, lose_reply: 30, ..quiet },
        Focus::Mixed => dice.one_of(&[quiet, rough, rough, Faults { cut_off: true, ..quiet }]),
    }
}
