//! Random histories: a store answers and keeps what the reference does, on the same clock.

use std::sync::Arc;

use anarchon::backend::contract::{
    Backend, CatchUp, ClaimKind, ErrorInfo, Finish, Heartbeat, JobLimits, Overlap, PauseRequest,
    RunClaim, RunStore, StoredResult,
};
use anarchon::backends::memory::MemoryBackend;
use anarchon::clock::Clock;
use anarchon::lease::model::{JobState, MissedRange, Status};
use anarchon::random::Random;
use anarchon::testing::manual_clock::ManualClock;
use futures_util::future::{BoxFuture, join_all};

const JOBS: [&str; 3] = ["alpha", "b: {e} t*a", "Alpha"];

/// One call with all that it says.
#[derive(Debug)]
enum Ask {
    Register(Vec<JobLimits>),
    Claim(Vec<RunClaim>),
    ClaimOnly(RunClaim),
    ClaimManual(RunClaim),
    RecordManual(RunClaim),
    Heartbeat(Vec<Heartbeat>),
    Finish(Vec<Finish>),
    Release(String, i64, String),
    Cancel(String, i64, bool),
    SaveResult(String, StoredResult, i64, Option<i64>),
    Survey,
    Active(String),
    Missed(String, MissedRange),
    Pause(String, Option<PauseRequest>),
    Forget(String),
    History(String, usize),
}

/// Draws calls that often meet: few jobs, few slots near now, few tokens.
struct Draw<'a> {
    random: &'a Random,
    now: i64,
    /// How far apart the slots of this history are (ms).
    period: i64,
    /// Whether claims without leases are mixed in, as no fleet does.
    mixes: bool,
}

impl Draw<'_> {
    fn below(&self, limit: i64) -> i64 {
        self.random.up_to(limit - 1)
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> T {
        let limit = i64::try_from(all.len()).expect("few");
        all[usize::try_from(self.below(limit)).expect("within")]
    }

    fn job(&self) -> String {
        self.one_of(&JOBS).to_owned()
    }

    fn slot(&self) -> i64 {
        self.now / self.period * self.period + (self.below(12) - 9) * self.period
    }

    fn token(&self) -> String {
        self.one_of(&["t0", "t1", "t 2", "ttt3", "t\u{e9}4", "5"]).to_owned()
    }

    fn instance(&self) -> String {
        self.one_of(&["host-1", "a host: 2 ", "h\u{f6}st 3"]).to_owned()
    }

    fn size(&self) -> i64 {
        self.one_of(&[0, 1, 2, 3, 5, 100])
    }

    fn ttl(&self) -> Option<i64> {
        self.one_of(&[None, None, None, Some(3_000), Some(20_000)])
    }

    fn lease_ms(&self) -> i64 {
        self.one_of(&[1, 1_000, 2_000, 5_000])
    }

    fn status(&self) -> Status {
        self.one_of(&[Status::Succeeded, Status::Failed, Status::TimedOut, Status::Cancelled])
    }

    fn claim(&self) -> RunClaim {
        let slot = self.slot();
        let lease_ms = self.lease_ms();
        RunClaim {
            input: anarchon::backend::contract::ClaimInput {
                job: self.job(),
                slot,
                token: self.token(),
                instance_id: self.instance(),
                history_size: self.size(),
                history_ttl_ms: self.ttl(),
                lease_ms: self.one_of(&[Some(lease_ms), Some(lease_ms), None]),
                overlap: self.one_of(&[Some(Overlap::Allow), Some(Overlap::Skip), None]),
                force: self.one_of(&[None, None, Some(true), Some(false)]),
                max_early_ms: self.one_of(&[None, Some(0), Some(1_000), Some(2 * self.period)]),
                asked_at: self.one_of(&[None, Some(self.now), Some(self.now - 3_000)]),
            },
            kind: self.one_of(&[
                ClaimKind::Slot,
                ClaimKind::Slot,
                ClaimKind::Slot,
                ClaimKind::Backup,
                ClaimKind::CatchUp,
            ]),
            max_takeovers: self.below(3),
            not_after_ms: self.one_of(&[None, Some(slot + 4 * self.period)]),
        }
    }

    fn limits(&self) -> JobLimits {
        let at = format!("at {}", self.slot());
        let schedules = [None, Some("every:1000"), Some("cron:* * * * *"), Some("at 1"), Some(&at)];
        JobLimits {
            name: self.job(),
            jitter_ms: self.one_of(&[0, 100]),
            max_late_ms: self.one_of(&[0, 1_000, 4_000]),
            history_size: self.size(),
            history_ttl_ms: self.ttl(),
            lease_ms: self.one_of(&[None, Some(1_000)]),
            overlap: Some(Overlap::Skip),
            catch_up: self.one_of(&[None, Some(CatchUp::Latest), Some(CatchUp::All)]),
            schedule: self.one_of(&schedules).map(str::to_owned),
            keep_ms: self.one_of(&[None, Some(0), Some(2_000)]),
            keep_slots: self.one_of(&[None, Some(0), Some(2), Some(4)]),
            keep_window_ms: self.one_of(&[None, Some(4_000), Some(20 * self.period)]),
            zone_tables: self.one_of(&[None, Some("2025b"), Some("2026a")]).map(str::to_owned),
        }
    }

    fn result(&self, slot: i64, status: Status) -> StoredResult {
        StoredResult {
            slot,
            manual: self.below(4) == 0,
            by: self.instance(),
            status,
            started_at: self.now - 10,
            ended_at: self.now,
            attempt: self.one_of(&[None, Some(1), Some(2)]),
            error: (status == Status::Failed).then(|| ErrorInfo {
                name: "ValueError".to_owned(),
                message: "it's \"wrong\"; no?\n\u{1f600}".to_owned(),
                stack: None,
            }),
            output: self.one_of(&[None, Some("[]"), Some("{\"rows\":3}")]).map(str::to_owned),
            output_truncated: self.one_of(&[None, Some(true), Some(false)]),
            abandoned: self.one_of(&[None, Some(true)]),
        }
    }

    fn finish(&self) -> Finish {
        let (slot, status) = (self.slot(), self.status());
        let result = (self.below(3) > 0).then(|| self.result(slot, status));
        Finish { job: self.job(), slot, token: self.token(), status, result }
    }

    fn heartbeat(&self) -> Heartbeat {
        let (job, slot, token) = (self.job(), self.slot(), self.token());
        Heartbeat { job, slot, token, lease_ms: self.lease_ms() }
    }

    fn several<T>(&self, one: impl Fn() -> T) -> Vec<T> {
        (0..self.one_of(&[1, 1, 1, 4, 9])).map(|_| one()).collect()
    }

    fn ask(&self) -> Ask {
        match self.below(42) {
            0..2 => Ask::Register(self.several(|| self.limits())),
            2..13 => Ask::Claim(self.several(|| self.claim())),
            13 | 14 if self.mixes => Ask::ClaimOnly(self.claim()),
            13..17 => Ask::ClaimManual(self.claim()),
            17 => Ask::RecordManual(self.claim()),
            18..21 => Ask::Heartbeat(self.several(|| self.heartbeat())),
            21..28 => Ask::Finish(self.several(|| self.finish())),
            28..30 => Ask::Release(self.job(), self.slot(), self.token()),
            30 => Ask::Cancel(self.job(), self.slot(), self.below(2) == 0),
            31 if self.mixes => {
                let result = self.result(self.slot(), self.status());
                Ask::SaveResult(self.job(), result, self.size(), self.ttl())
            }
            31..34 => Ask::Survey,
            34 | 35 => Ask::Active(self.job()),
            36 => Ask::Missed(self.job(), self.missed()),
            37 => Ask::Pause(self.job(), (self.below(3) == 0).then(|| self.pause())),
            38 if self.below(3) == 0 => Ask::Forget(self.job()),
            _ => Ask::History(self.job(), self.one_of(&[0, 1, 3, 50])),
        }
    }

    fn missed(&self) -> MissedRange {
        let from = self.slot();
        let to = from + self.below(3) * self.period;
        let (reason, by) = ("no_instance".to_owned(), self.instance());
        MissedRange { from, to, count: 2, reason, by, at: 0 }
    }

    fn pause(&self) -> PauseRequest {
        let reason = self.one_of(&[None, Some(""), Some("it is late")]).map(str::to_owned);
        PauseRequest { by: self.instance(), reason }
    }
}

/// What a backend answers, as text that can be compared. Errors count by their codes.
async fn answer<B: Backend + RunStore>(backend: &B, ask: &Ask) -> String {
    match ask {
        Ask::Register(limits) if limits.len() == 1 => {
            format!("{:?}", [backend.prepare_job(&limits[0]).await])
        }
        Ask::Register(limits) => format!("{:?}", backend.prepare_jobs(limits).await),
        Ask::Claim(claims) if claims.len() == 1 => {
            format!("{:?}", [RunStore::claim(backend, &claims[0]).await])
        }
        Ask::Claim(claims) => format!("{:?}", backend.claim_all(claims).await),
        Ask::ClaimOnly(claim) => format!("{:?}", Backend::claim(backend, &claim.input).await),
        Ask::ClaimManual(claim) => format!("{:?}", backend.claim_manual(&claim.input).await),
        Ask::RecordManual(claim) => {
            let slot = backend.record_manual_run(&claim.input).await;
            format!("{:?}", slot.map_err(|error| error.code()))
        }
        Ask::Heartbeat(beats) => format!("{:?}", backend.heartbeat_all(beats).await),
        Ask::Finish(ends) => format!("{:?}", backend.finish_all(ends).await),
        Ask::Release(job, slot, token) => format!("{:?}", backend.release(job, *slot, token).await),
        Ask::Cancel(job, slot, manual) => {
            format!("{:?}", backend.cancel(job, *slot, *manual).await)
        }
        Ask::SaveResult(job, result, size, ttl) => {
            format!("{:?}", backend.save_result(job, result, *size, *ttl).await)
        }
        Ask::Survey => {
            let jobs = JOBS.map(str::to_owned);
            format!("{:?}", backend.survey_all(&jobs).await)
        }
        Ask::Active(job) => format!("{:?}", backend.active(job).await),
        Ask::Missed(job, range) => format!("{:?}", backend.record_missed(job, range).await),
        Ask::Pause(job, request) => {
            format!("{:?}", backend.set_paused(job, request.as_ref()).await)
        }
        Ask::Forget(job) => format!("{:?}", backend.forget(job).await),
        Ask::History(job, limit) => format!("{:?}", backend.history(job, *limit).await),
    }
}

/// The instants at which histories are played (ms): today, around 2038, 2500.
const STARTS: [i64; 3] = [1_760_000_000_000, 2_147_483_640_000, 16_725_225_600_000];

/// Plays one history on the reference and on a store that reads `clock`. `stored` reads all that
/// the store keeps of a job.
///
/// # Panics
/// Where the two differ: with the seed, the step and the call.
pub async fn play<'a, B: Backend + RunStore>(
    seed: u64,
    steps: usize,
    store: &'a B,
    stored: impl Fn(&'a B, &'static str) -> BoxFuture<'a, JobState>,
    clock: &ManualClock,
) {
    let random = Random::seeded(seed);
    let memory = MemoryBackend::new(Arc::new(clock.clone()));
    let start = STARTS[usize::try_from(seed % 3).expect("small")];
    clock.step_wall(start - clock.wall_ms());
    let mixes = random.up_to(2) == 0;
    let period = [10, 1_000, 60_000][usize::try_from(random.up_to(2)).expect("small")];
    for step in 0..steps {
        let draw = Draw { random: &random, now: clock.wall_ms(), period, mixes };
        let ask = draw.ask();
        let (wanted, got) = (answer(&memory, &ask).await, answer(store, &ask).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {ask:?}");
        let states = join_all(JOBS.map(|job| stored(store, job))).await;
        for (job, stored) in JOBS.into_iter().zip(states) {
            assert_eq!(stored, memory.state(job), "seed {seed}, step {step}, {job}: {ask:?}");
        }
        // Mostly on, now and then back: the store's clock may be set.
        let back = i64::from(random.up_to(20) == 0) * 5 * period / 2;
        clock.step_wall(random.up_to(period * 9 / 10) - back);
    }
}
