//! What a case works with: clients of one store, jobs of its own, and the store's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::OnceCell;

use crate::backend::contract::{
    Backend, ClaimInput, ClaimKind, JobLimits, Overlap, RunClaim, RunRecord, RunStore, StoredResult,
};
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::Result;
use crate::lease::model::Status;
use crate::random::Random;
use crate::testing::conformance::{CheckOptions, Halt};

/// A lease that is certainly alive while a case runs (ms).
pub(super) const LONG: i64 = 3_600_000;
/// A lease that is over as soon as the store's clock has moved on (ms).
pub(super) const SHORT: i64 = 1;
const DAY: i64 = 86_400_000;

/// What one case works with. Cloning shares it.
#[derive(Clone)]
pub(super) struct Bed {
    /// Clients of the same store.
    pub(super) clients: Vec<Arc<dyn Backend>>,
    /// How thorough to be.
    pub(super) options: CheckOptions,
    prefix: String,
    jobs: Arc<AtomicUsize>,
    random: Arc<Random>,
    /// The job whose claims tell the time.
    clock_job: Arc<OnceCell<String>>,
}

impl Bed {
    pub(super) fn new(
        clients: Vec<Arc<dyn Backend>>,
        options: &CheckOptions,
        number: usize,
    ) -> Bed {
        // A store is not emptied: names of an earlier check must not come again.
        let random = Random::system();
        let unique = &random.token()[..12];
        let prefix = format!("check-{unique}-{number}");
        let (jobs, random, clock_job) = (Arc::default(), Arc::new(random), Arc::default());
        Bed { clients, options: options.clone(), prefix, jobs, random, clock_job }
    }

    /// The first client.
    pub(super) fn client(&self) -> &dyn Backend {
        &*self.clients[0]
    }

    /// The client that acts for an instance.
    pub(super) fn client_of(&self, number: usize) -> &dyn Backend {
        &*self.clients[number % self.clients.len()]
    }

    /// The leases of the client that acts for an instance.
    pub(super) fn runs_of(&self, number: usize) -> &dyn RunStore {
        self.client_of(number).runs().expect("cases about leases run only where there are leases")
    }

    /// The leases of the first client.
    pub(super) fn runs(&self) -> &dyn RunStore {
        self.runs_of(0)
    }

    /// A name that no other case has used.
    pub(super) fn new_name(&self) -> String {
        format!("{}-{}", self.prefix, self.jobs.fetch_add(1, Ordering::Relaxed))
    }

    /// A fresh job that keeps `history_size` records and no longer than it must.
    pub(super) async fn job_keeping(&self, history_size: i64) -> Result<String> {
        let name = self.new_name();
        self.client().prepare_job(&limits(&name, history_size)).await?;
        Ok(name)
    }

    /// A fresh job.
    pub(super) async fn job(&self) -> Result<String> {
        self.job_keeping(100).await
    }

    /// A token that nobody else has.
    pub(super) fn token(&self) -> String {
        self.random.token()
    }

    /// A claim by instance `number` with a fresh token.
    pub(super) fn input(&self, job: &str, slot: i64, number: usize) -> ClaimInput {
        ClaimInput {
            job: job.to_owned(),
            slot,
            token: self.token(),
            instance_id: instance(number),
            history_size: 100,
            history_ttl_ms: None,
            lease_ms: None,
            overlap: None,
            force: None,
            max_early_ms: Some(DAY),
            asked_at: None,
        }
    }

    /// A claim with a lease by instance `number` with a fresh token.
    pub(super) fn run_claim(&self, job: &str, slot: i64, number: usize, lease_ms: i64) -> RunClaim {
        let mut input = self.input(job, slot, number);
        input.lease_ms = Some(lease_ms);
        input.overlap = Some(Overlap::Allow);
        RunClaim { input, kind: ClaimKind::Slot, max_takeovers: 100, not_after_ms: None }
    }

    /// The store's clock (ms), or ours if the store does not tell.
    pub(super) async fn now(&self) -> Result<i64> {
        let told = self.told_now().await?;
        Ok(told.unwrap_or_else(|| SystemClock.wall_ms()))
    }

    /// The store's clock, if the store tells: a backup claim for a slot that nobody ever started
    /// changes nothing.
    async fn told_now(&self) -> Result<Option<i64>> {
        let Some(runs) = self.client().runs() else { return Ok(None) };
        let job = self.clock_job.get_or_try_init(|| self.job()).await?;
        let mut probe = self.run_claim(job, 1, 0, LONG);
        probe.kind = ClaimKind::Backup;
        Ok(runs.claim(&probe).await?.now_ms)
    }

    /// Waits until every lease of [`SHORT`] that has been granted so far is over.
    pub(super) async fn outlast_short_leases(&self) -> Result<()> {
        match self.told_now().await? {
            Some(now) => self.wait_until(now + SHORT + 1).await,
            None => {
                sleep_for(&SystemClock, 20).await;
                Ok(())
            }
        }
    }

    /// Waits until the store's clock shows `at` (ms).
    pub(super) async fn wait_until(&self, at: i64) -> Result<()> {
        loop {
            let now = self.now().await?;
            if now >= at {
                return Ok(());
            }
            sleep_for(&SystemClock, at - now).await;
        }
    }

    /// Sends one claim per client at once; the answers, in the order of the clients.
    pub(super) async fn race(&self, claims: &[ClaimInput]) -> std::result::Result<Vec<bool>, Halt> {
        let calls =
            claims.iter().enumerate().map(|(number, input)| self.client_of(number).claim(input));
        let answers = join_all(calls).await;
        Ok(answers.into_iter().collect::<Result<Vec<bool>>>()?)
    }

    /// Claims a slot, tells the history if the store wants that, and answers whether it was won.
    pub(super) async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        let won = self.client().claim(input).await?;
        if won && self.client().records_claims() {
            self.client().record_claim(input).await?;
        }
        Ok(won)
    }

    /// The history of a job, as far as a thousand records.
    pub(super) async fn history(&self, job: &str) -> Result<Vec<RunRecord>> {
        self.client().history(job, 1_000).await
    }
}

/// The name of instance `number`.
pub(super) fn instance(number: usize) -> String {
    format!("instance-{number}")
}

/// Limits under which trimming leaves no more than it must.
pub(super) fn limits(job: &str, history_size: i64) -> JobLimits {
    JobLimits {
        name: job.to_owned(),
        history_size,
        schedule: Some("every:1".to_owned()),
        ..JobLimits::default()
    }
}

/// The result of a run that succeeded.
pub(super) fn result(slot: i64, manual: bool, by: &str) -> StoredResult {
    StoredResult {
        slot,
        manual,
        by: by.to_owned(),
        status: Status::Succeeded,
        started_at: slot + 10,
        ended_at: slot + 35,
        attempt: None,
        error: None,
        output: Some("{\"rows\":3}".to_owned()),
        output_truncated: None,
        abandoned: None,
    }
}
