//! Random histories: the SQL engine answers and stores what the reference does.

use std::sync::Arc;

use anarchon::backend::contract::{
    Backend, CatchUp, ClaimKind, ErrorInfo, Finish, Heartbeat, JobLimits, Overlap, PauseRequest,
    RunClaim, RunStore, StoredResult,
};
use anarchon::backends::memory::MemoryBackend;
use anarchon::backends::sql::{SqlEngine, SqlStore};
use anarchon::clock::Clock;
use anarchon::lease::model::{MissedRange, Status};
use anarchon::random::Random;
use anarchon::testing::manual_clock::ManualClock;

use crate::plain;
use crate::store::{Directory, claim, opened};

const JOBS: [&str; 3] = ["alpha", "beta", "Beta"];
const STEPS: usize = 250;

/// One call with all that it says.
#[derive(Debug)]
enum Ask {
    Register(JobLimits),
    Claim(Vec<RunClaim>),
    ClaimOnly(RunClaim),
    ClaimManual(RunClaim),
    Heartbeat(Vec<Heartbeat>),
    Finish(Vec<Finish>),
    Release(String, i64, String),
    Cancel(String, i64, bool),
    SaveResult(String, StoredResult),
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
        self.now / 1_000 * 1_000 - 6_000 + self.below(9) * 1_000
    }

    fn token(&self) -> String {
        format!("t{}", self.below(6))
    }

    fn size(&self) -> i64 {
        self.one_of(&[0, 1, 2, 3, 5, 100])
    }

    fn ttl(&self) -> Option<i64> {
        self.one_of(&[None, None, None, Some(3_000), Some(20_000)])
    }

    fn lease_ms(&self) -> i64 {
        self.one_of(&[1_000, 2_000, 5_000])
    }

    fn status(&self) -> Status {
        self.one_of(&[Status::Succeeded, Status::Failed, Status::TimedOut, Status::Cancelled])
    }

    fn claim(&self) -> RunClaim {
        let (job, slot, token) = (self.job(), self.slot(), self.token());
        let mut drawn = claim(&job, slot, &token);
        drawn.kind = self.one_of(&[
            ClaimKind::Slot,
            ClaimKind::Slot,
            ClaimKind::Slot,
            ClaimKind::Backup,
            ClaimKind::CatchUp,
        ]);
        drawn.max_takeovers = self.below(3);
        drawn.not_after_ms = self.one_of(&[None, Some(slot + 4_000)]);
        drawn.input.lease_ms = Some(self.lease_ms());
        drawn.input.overlap = Some(self.one_of(&[Overlap::Allow, Overlap::Skip]));
        drawn.input.max_early_ms = Some(self.below(2_000));
        drawn.input.history_size = self.size();
        drawn.input.history_ttl_ms = self.ttl();
        drawn
    }

    fn limits(&self) -> JobLimits {
        JobLimits {
            name: self.job(),
            jitter_ms: 100,
            max_late_ms: 1_000,
            history_size: self.size(),
            history_ttl_ms: self.ttl(),
            lease_ms: Some(self.lease_ms()),
            overlap: Some(Overlap::Skip),
            catch_up: Some(CatchUp::Latest),
            schedule: Some(self.one_of(&["every:1000", "cron:* * * * *", "at 1"]).to_owned()),
            keep_ms: self.one_of(&[None, Some(0), Some(2_000)]),
            keep_slots: self.one_of(&[None, Some(0), Some(2), Some(3)]),
            keep_window_ms: self.one_of(&[None, Some(4_000), Some(60_000)]),
            zone_tables: self.one_of(&[None, Some("2025b")]).map(str::to_owned),
        }
    }

    fn result(&self, slot: i64, status: Status) -> StoredResult {
        StoredResult {
            slot,
            manual: self.below(4) == 0,
            by: "host".to_owned(),
            status,
            started_at: self.now - 10,
            ended_at: self.now,
            attempt: None,
            error: (status == Status::Failed).then(|| ErrorInfo {
                name: "ValueError".to_owned(),
                message: "it's \"wrong\"; no?".to_owned(),
                stack: None,
            }),
            output: (self.below(2) == 0).then(|| "{\"rows\":3}".to_owned()),
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
        match self.below(40) {
            0..2 => Ask::Register(self.limits()),
            2..13 => Ask::Claim(self.several(|| self.claim())),
            13..15 => Ask::ClaimOnly(self.claim()),
            15..18 => Ask::ClaimManual(self.claim()),
            18..21 => Ask::Heartbeat(self.several(|| self.heartbeat())),
            21..28 => Ask::Finish(self.several(|| self.finish())),
            28..30 => Ask::Release(self.job(), self.slot(), self.token()),
            30 => Ask::Cancel(self.job(), self.slot(), self.below(2) == 0),
            31 => Ask::SaveResult(self.job(), self.result(self.slot(), self.status())),
            32..34 => Ask::Survey,
            34 => Ask::Active(self.job()),
            35 => Ask::Missed(self.job(), self.missed()),
            36 => Ask::Pause(self.job(), (self.below(3) == 0).then(|| self.pause())),
            37 if self.below(3) == 0 => Ask::Forget(self.job()),
            _ => Ask::History(self.job(), self.one_of(&[1, 3, 50])),
        }
    }

    fn missed(&self) -> MissedRange {
        let from = self.slot();
        let (reason, by) = ("no_instance".to_owned(), "host".to_owned());
        MissedRange { from, to: from + 1_000, count: 2, reason, by, at: 0 }
    }

    fn pause(&self) -> PauseRequest {
        let reason = self.one_of(&[None, Some("maintenance")]).map(str::to_owned);
        PauseRequest { by: "host".to_owned(), reason }
    }
}

/// What a backend answers, as text that can be compared.
async fn answer<B: Backend + RunStore>(backend: &B, ask: &Ask) -> String {
    let backend: &B = backend;
    match ask {
        Ask::Register(limits) => format!("{:?}", backend.prepare_job(limits).await),
        Ask::Claim(claims) if claims.len() == 1 => {
            format!("{:?}", [RunStore::claim(backend, &claims[0]).await])
        }
        Ask::Claim(claims) => format!("{:?}", backend.claim_all(claims).await),
        Ask::ClaimOnly(claim) => format!("{:?}", Backend::claim(backend, &claim.input).await),
        Ask::ClaimManual(claim) => format!("{:?}", backend.claim_manual(&claim.input).await),
        Ask::Heartbeat(beats) => format!("{:?}", backend.heartbeat_all(beats).await),
        Ask::Finish(ends) => format!("{:?}", backend.finish_all(ends).await),
        Ask::Release(job, slot, token) => format!("{:?}", backend.release(job, *slot, token).await),
        Ask::Cancel(job, slot, manual) => {
            format!("{:?}", backend.cancel(job, *slot, *manual).await)
        }
        Ask::SaveResult(job, result) => {
            format!("{:?}", backend.save_result(job, result, 3, None).await)
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

/// Plays one history on the reference and on a store.
async fn play<S: SqlStore + 'static>(seed: u64, store: &SqlEngine<S>, clock: &ManualClock) {
    let random = Random::seeded(seed);
    let memory = MemoryBackend::new(Arc::new(clock.clone()));
    for step in 0..STEPS {
        let draw = Draw { random: &random, now: clock.wall_ms() };
        let ask = draw.ask();
        let (wanted, got) = (answer(&memory, &ask).await, answer(store, &ask).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {ask:?}");
        for job in JOBS {
            let stored = store.state(job).await.expect("the state can be read");
            assert_eq!(stored, memory.state(job), "seed {seed}, step {step}, {job}: {ask:?}");
        }
        // Mostly on, now and then back: the store's clock may be set.
        clock.step_wall(random.up_to(900) - i64::from(random.up_to(20) == 0) * 2_500);
    }
    store.close().await.expect("the store closes");
}

#[tokio::test]
async fn random_histories_are_answered_and_stored_as_by_the_reference() {
    for seed in 1..=16 {
        let (directory, clock) = (Directory::new(), ManualClock::default());
        let mut options = directory.options();
        options.clock = Some(Arc::new(clock.clone()));
        play(seed, &opened(options).await, &clock).await;
    }
}

/// The engine with nothing but a client's `all` and `transaction`, whose values come in all forms
/// that drivers give them.
#[tokio::test]
async fn random_histories_are_the_same_through_a_client_that_can_do_the_least() {
    for seed in 101..=110 {
        let (directory, clock) = (Directory::new(), ManualClock::default());
        let store = plain::opened(&directory, &clock).await;
        play(seed, &store, &clock).await;
    }
}
