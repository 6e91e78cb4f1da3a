//! The contract: claims, and the records of what was claimed.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream as futures};

use super::claim::{self, Declared};
use super::link::Purpose;
use super::names::About;
use super::record::{Message, Told, records};
use super::store::{Access, RabbitMqBackend};
use super::stream::{self, Written};
use crate::backend::contract::{
    Backend, ClaimInput, ClaimOutcome, JobLimits, OutcomeKind, RunRecord, StoredResult,
};
use crate::clock::{SystemClock, sleep_for};
use crate::error::{Error, Result};
use crate::random::Random;

/// How many messages are read at least: a run has two, and the newest are not in the order of slots.
const READ: i64 = 1_000;

/// How often a record is written to a stream that is not there, or not there yet.
const ROUNDS: i64 = 8;

/// How many manual runs may be asked for one slot within the dedupe window.
const MANUAL_RUNS: i64 = 1_000;

impl RabbitMqBackend {
    async fn declare(&self, job: &str, about: About, token: &str) -> Result<Declared> {
        let queue = self.place(job).queue(about);
        let expires = Some(self.shared.options.expires_ms());
        let declare = |lane| claim::declare(lane, &queue, token, expires);
        self.shared.on(Purpose::Claims, declare).await
    }

    /// Whether the store may still know who had a slot, if anybody had. It is granted to nobody
    /// once it may not.
    fn remembers(&self, slot: i64) -> bool {
        slot.saturating_add(self.shared.options.dedupe_window_ms) > self.now()
    }

    fn is_too_early(&self, input: &ClaimInput) -> bool {
        let limit = input.max_early_ms.map(|early| self.now().saturating_add(early));
        limit.is_some_and(|limit| input.slot > limit)
    }

    async fn write(&self, job: &str, message: &Message) -> Result<()> {
        let (stream, bytes) = (self.place(job).queue(About::Records), message.to_bytes());
        for round in 0..ROUNDS {
            let write = |lane| stream::write(lane, &stream, &bytes);
            match self.shared.on(Purpose::Records, write).await? {
                Written::Yes => return Ok(()),
                // The job is new here, or somebody removed its stream.
                Written::Missing => {
                    let declare = |lane| stream::declare(lane, &stream);
                    self.shared.on(Purpose::Records, declare).await?;
                }
                Written::NotYet => {
                    let wait = Random::system().up_to(100 * (round + 1));
                    sleep_for(&SystemClock, wait).await;
                }
            }
        }
        let place = self.shared.options.address();
        let why = format!("RabbitMQ at {place}: the stream {stream:?} does not come up, or is");
        Err(Error::unavailable(format!("{why} removed all the time")))
    }
}

#[async_trait]
impl Backend for RabbitMqBackend {
    fn name(&self) -> String {
        "rabbitmq".to_owned()
    }

    fn dedupe_window_ms(&self) -> Option<i64> {
        Some(self.shared.options.dedupe_window_ms)
    }

    async fn init(&self) -> Result<()> {
        self.shared.open(Access::Full).await
    }

    async fn init_reader(&self) -> Result<()> {
        self.shared.open(Access::Reader).await
    }

    async fn prepare_job(&self, limits: &JobLimits) -> Result<()> {
        self.shared.check_open()?;
        self.write(&limits.name, &Message::job(limits)).await
    }

    async fn prepare_jobs(&self, limits: &[JobLimits]) -> Vec<Result<()>> {
        let mut calls = Vec::with_capacity(limits.len());
        for one in limits {
            calls.push(self.prepare_job(one));
        }
        futures::iter(calls).buffered(self.shared.options.channels).collect().await
    }

    async fn claim(&self, input: &ClaimInput) -> Result<bool> {
        self.shared.check_open()?;
        if self.is_too_early(input) || !self.remembers(input.slot) {
            return Ok(false);
        }
        let declared = self.declare(&input.job, About::Claim(input.slot), &input.token).await?;
        // Asked again: the process may have been suspended on the way, until after the end of a
        // queue that another instance had declared.
        Ok(declared == Declared::Ours && self.remembers(input.slot))
    }

    async fn record_manual_run(&self, input: &ClaimInput) -> Result<Option<i64>> {
        self.shared.check_open()?;
        if !self.remembers(input.asked_at.unwrap_or(input.slot)) {
            let now_ms = Some(self.now());
            let late = ClaimOutcome { now_ms, ..ClaimOutcome::of(OutcomeKind::Late) };
            return late.into_manual_slot(input);
        }
        for slot in input.slot..input.slot.saturating_add(MANUAL_RUNS) {
            let declared = self.declare(&input.job, About::Manual(slot), &input.token).await?;
            if declared == Declared::Ours {
                let message = Message::claim(input, slot, true, self.now());
                self.write(&input.job, &message).await?;
                return Ok(Some(slot));
            }
        }
        Err(Error::unavailable(format!(
            "RabbitMQ: {MANUAL_RUNS} manual runs of job {:?} were asked for slot {} within the \
             dedupe window",
            input.job, input.slot
        )))
    }

    async fn save_result(
        &self,
        job: &str,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Result<()> {
        self.shared.check_open()?;
        let told = Told::Result(result.clone());
        self.write(job, &Message { told, history_size, history_ttl_ms }).await
    }

    async fn history(&self, job: &str, limit: usize) -> Result<Vec<RunRecord>> {
        self.shared.check_open()?;
        let stream = self.place(job).queue(About::Records);
        let count = i64::try_from(limit).unwrap_or(i64::MAX).saturating_mul(4).max(READ);
        let read = |lane| stream::read(lane, &stream, count);
        let messages = self.shared.on(Purpose::Records, read).await?.unwrap_or_default();
        Ok(records(job, &messages, limit, self.now()))
    }

    async fn close(&self) -> Result<()> {
        if !self.is_view {
            self.shared.shut().await;
        }
        Ok(())
    }

    fn records_claims(&self) -> bool {
        true
    }

    async fn record_claim(&self, input: &ClaimInput) -> Result<()> {
        self.shared.check_open()?;
        let message = Message::claim(input, input.slot, false, self.now());
        self.write(&input.job, &message).await
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn with_namespace(&self, namespace: &str) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(RabbitMqBackend {
            shared: self.shared.clone(),
            namespace: namespace.to_owned(),
            is_view: true,
        }))
    }
}
