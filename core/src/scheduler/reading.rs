//! What works without a start: reading, and acting on the fleet through the store.

use crate::backend::contract::{ActiveRun, PauseRequest, RunStore};
use crate::error::{Code, Error, Result};
use crate::lease::model::RunKey;
use crate::scheduler::driver::Message;
use crate::scheduler::job::check_name;
use crate::scheduler::{Explanation, HistoryEntry, Scheduler, check_process, explain};

/// The most records that a history answers.
const MOST_RECORDS: usize = 100_000;

impl Scheduler {
    /// Opens the store for reading, unless it is open.
    async fn reach_for_reading(&self) -> Result<()> {
        let started = self.inner.state().started.clone();
        if let Some(started) = started.filter(|started| started.open) {
            return check_process(&started);
        }
        let mut reading = self.inner.reading.lock().await;
        if !*reading {
            self.inner.shared.join().await;
            *reading = true;
        }
        self.inner.shared.init_reader().await
    }

    pub(super) async fn stop_reading(&self) -> Result<()> {
        let mut reading = self.inner.reading.lock().await;
        if std::mem::take(&mut *reading) {
            return self.inner.shared.leave().await;
        }
        Ok(())
    }

    /// The leases of the store, for a call that needs them.
    fn leases(&self, call: &str, has: impl Fn(&dyn RunStore) -> bool) -> Result<&dyn RunStore> {
        let runs = self.inner.guard.backend().runs().filter(|runs| has(*runs));
        runs.ok_or_else(|| {
            Error::new(
                Code::LeasesRequired,
                format!(
                    "{call} needs a store that keeps it for the whole fleet, and {:?} does not; \
                     use a store with leases (sqlite:, postgres:, mysql:, redis:, nats:)",
                    self.backend_name()
                ),
            )
        })
    }

    /// The latest runs from all instances, newest first; with `missed` the reported ranges of
    /// missed slots among them. Works without a start.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a limit out of range; what the store says.
    pub async fn history(
        &self,
        name: &str,
        limit: usize,
        missed: bool,
    ) -> Result<Vec<HistoryEntry>> {
        check_name(name)?;
        if limit == 0 || limit > MOST_RECORDS {
            return Err(Error::option(format!(
                "limit is {limit}; allowed is a whole number from 1 to {MOST_RECORDS}"
            )));
        }
        self.reach_for_reading().await?;
        let records = self.inner.guard.history(name, limit).await?;
        let mut entries: Vec<HistoryEntry> =
            records.into_iter().map(|record| HistoryEntry::Run(Box::new(record))).collect();
        if missed {
            entries.extend(self.missed_ranges(name).await?);
            let newest = |entry: &HistoryEntry| match entry {
                HistoryEntry::Run(record) => record.slot,
                HistoryEntry::Missed { missed } => missed.to,
            };
            entries.sort_by_key(|entry| std::cmp::Reverse(newest(entry)));
            entries.truncate(limit);
        }
        Ok(entries)
    }

    async fn missed_ranges(&self, name: &str) -> Result<Vec<HistoryEntry>> {
        if !self.inner.guard.has_leases() {
            return Ok(Vec::new());
        }
        let names = [name.to_owned()];
        let surveys = self.inner.guard.surveys(&names).await;
        let mut ranges = Vec::new();
        for survey in surveys {
            ranges.extend(survey?.missed);
        }
        // Whoever resumed a job may not have known its schedule; we may.
        let state = self.inner.state();
        if let Some(job) = state.jobs.get(name) {
            for range in ranges.iter_mut().filter(|range| range.count == 0) {
                range.count = job.spec.schedule.count(range.from, range.to.saturating_add(1));
            }
        }
        Ok(ranges.into_iter().map(|missed| HistoryEntry::Missed { missed }).collect())
    }

    /// The unfinished runs from all instances; works without a start.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn active(&self, name: &str) -> Result<Vec<ActiveRun>> {
        check_name(name)?;
        let runs = self.leases("active", |_| true)?;
        self.reach_for_reading().await?;
        self.inner.guard.on_runs("runs.active", runs.active(name)).await
    }

    /// Why a slot did or did not run; works without a start.
    ///
    /// # Errors
    /// What the store says.
    pub async fn explain(&self, name: &str, slot: i64) -> Result<Explanation> {
        check_name(name)?;
        self.reach_for_reading().await?;
        let guard = &self.inner.guard;
        let records = guard.history(name, MOST_RECORDS).await?;
        let records = records.into_iter().filter(|record| record.slot == slot).collect();
        let survey = match guard.surveys(&[name.to_owned()]).await.pop() {
            Some(survey) => survey?,
            None => return Err(Error::unavailable("the store gave no survey")),
        };
        let state = self.inner.state();
        let job = state.jobs.get(name);
        Ok(explain::explain(name, slot, records, &survey, job.map(|job| &job.spec)))
    }

    /// Pauses a job on the whole fleet: no new run begins, what runs goes on.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn pause(&self, name: &str, reason: Option<String>) -> Result<()> {
        let by = self.instance_id().unwrap_or_else(|| "reader".to_owned());
        self.set_paused("pause", name, Some(&PauseRequest { by, reason })).await
    }

    /// Resumes a job on the whole fleet. The slots of the pause are not made up for.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn resume(&self, name: &str) -> Result<()> {
        self.set_paused("resume", name, None).await
    }

    async fn set_paused(&self, call: &str, name: &str, to: Option<&PauseRequest>) -> Result<()> {
        check_name(name)?;
        let runs = self.leases(call, |runs| runs.has_set_paused())?;
        self.reach_for_reading().await?;
        self.inner.guard.on_runs("runs.setPaused", runs.set_paused(name, to)).await?;
        self.tell_driver(Message::Sweep(name.to_owned()));
        Ok(())
    }

    /// Cancels unfinished runs of a job (one slot, or all), whoever holds them; how many it were.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn cancel(&self, name: &str, slot: Option<i64>) -> Result<usize> {
        check_name(name)?;
        let runs = self.leases("cancel", |runs| runs.has_cancel())?;
        self.reach_for_reading().await?;
        let guard = &self.inner.guard;
        let open = guard.on_runs("runs.active", runs.active(name)).await?;
        let mut cancelled = 0;
        for run in open.iter().filter(|run| slot.is_none_or(|slot| run.slot == slot)) {
            let call = runs.cancel(name, run.slot, run.manual);
            if guard.on_runs("runs.cancel", call).await? {
                cancelled += 1;
                let key = Some(RunKey { slot: run.slot, manual: run.manual });
                let reason = Error::new(Code::Cancelled, "the run was cancelled");
                self.tell_driver(Message::CancelRun { name: name.to_owned(), key, reason });
            }
        }
        Ok(cancelled)
    }

    /// Drops a job's records and definition from the store. Its slots stay claimed for ever.
    ///
    /// # Errors
    /// `OVERLAP` while a run is unfinished; what the store says; `LEASES_REQUIRED`.
    pub async fn forget(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let runs = self.leases("forget", |runs| runs.has_forget())?;
        self.reach_for_reading().await?;
        if self.inner.guard.on_runs("runs.forget", runs.forget(name)).await? {
            return Ok(());
        }
        Err(Error::new(
            Code::Overlap,
            format!("job {name:?} has an unfinished run; wait for its end, or cancel it first"),
        ))
    }

    fn tell_driver(&self, message: Message) {
        let started = self.inner.state().started.clone();
        if let Some(started) = started {
            started.mailbox.post(message);
        }
    }
}
