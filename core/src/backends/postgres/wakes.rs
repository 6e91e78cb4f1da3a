//! Telling other replicas that a run was given back or has ended, with `LISTEN` and `NOTIFY`.
//!
//! It only shortens a wait, and nothing waits for it. Notifying inside the transaction of a claim
//! would let one commit in at a time (320 claims/s against 4,566), so it is sent by itself, after
//! the answer, and all that have gathered while one is under way go together. Where listening does
//! not work (a pooler, a lost connection) everything still holds, a little later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::task::JoinHandle;

use crate::backend::contract::{Wake, WakeListener};
use crate::backends::sql::{Lane, SqlClient, SqlValue};
use crate::clock::{SystemClock, sleep_for};
use crate::random::Random;

/// Who wants to be told, and what is to be told.
pub(super) struct Wakes {
    channel: String,
    driver: PgConnectOptions,
    /// Tells our own notifications from those of others: our own listeners have been told already.
    origin: String,
    random: Random,
    watchers: Mutex<Vec<(String, Weak<WakeListener>)>>,
    listening: Mutex<Option<JoinHandle<()>>>,
    outbox: Mutex<Vec<News>>,
    sending: AtomicBool,
}

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct News {
    #[serde(rename = "n")]
    namespace: String,
    #[serde(rename = "j")]
    job: String,
    /// Whether the run has ended; else it was given back.
    #[serde(rename = "f")]
    finished: bool,
}

/// What travels in one notification.
#[derive(Debug, Serialize, Deserialize)]
struct Parcel {
    #[serde(rename = "o")]
    origin: String,
    #[serde(rename = "w")]
    news: Vec<News>,
}

/// PostgreSQL takes less than 8,000 bytes in one notification.
const LONGEST: usize = 7_900;

impl Wakes {
    pub(super) fn new(table: &str, driver: PgConnectOptions) -> Arc<Wakes> {
        let random = Random::system();
        Arc::new(Wakes {
            // A name of PostgreSQL ends after 63 bytes.
            channel: table.replace('.', "_").chars().take(63).collect(),
            driver,
            origin: random.token(),
            random,
            watchers: Mutex::default(),
            listening: Mutex::default(),
            outbox: Mutex::default(),
            sending: AtomicBool::new(false),
        })
    }

    /// Calls `listener` with what happens in a namespace, and begins to listen.
    pub(super) fn watch(self: &Arc<Wakes>, namespace: &str, listener: &Arc<WakeListener>) {
        let watcher = (namespace.to_owned(), Arc::downgrade(listener));
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(watcher);
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = listening.as_ref().is_some_and(|task| !task.is_finished());
        if let (false, Ok(runtime)) = (runs, tokio::runtime::Handle::try_current()) {
            *listening = Some(runtime.spawn(Wakes::listen(Arc::downgrade(self))));
        }
    }

    /// Tells our own watchers now, and other replicas soon.
    pub(super) fn tell(
        self: &Arc<Wakes>,
        client: Arc<dyn SqlClient>,
        namespace: &str,
        jobs: Vec<String>,
        wake: Wake,
    ) {
        let finished = wake == Wake::Finished;
        let news: Vec<News> = jobs
            .into_iter()
            .map(|job| News { namespace: namespace.to_owned(), job, finished })
            .collect();
        news.iter().for_each(|one| self.pass_on(one));
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).extend(news);
        if self.sending.swap(true, Ordering::AcqRel) {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(self.clone().send(client))),
            Err(_) => self.sending.store(false, Ordering::Release),
        }
    }

    /// Stops listening.
    pub(super) fn close(&self) {
        let task = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }

    fn pass_on(&self, news: &News) {
        let wake = if news.finished { Wake::Finished } else { Wake::Released };
        let listeners: Vec<Arc<WakeListener>> = {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.retain(|(_, listener)| listener.strong_count() > 0);
            let concerned = watchers.iter().filter(|(namespace, _)| *namespace == news.namespace);
            concerned.filter_map(|(_, listener)| listener.upgrade()).collect()
        };
        for listener in listeners {
            listener(&news.job, wake);
        }
    }

    fn heard(&self, payload: &str) {
        let Ok(parcel) = serde_json::from_str::<Parcel>(payload) else { return };
        if parcel.origin != self.origin {
            parcel.news.iter().for_each(|one| self.pass_on(one));
        }
    }

    async fn send(self: Arc<Wakes>, client: Arc<dyn SqlClient>) {
        loop {
            let news =
                std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
            for payload in parcels(&self.origin, news) {
                // Nobody waits for the disk because of a hint, and a lost one is only a lost hint.
                const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), \
                                      CAST(pg_notify($1, $2) AS TEXT)";
                let params = [SqlValue::Text(self.channel.clone()), SqlValue::Text(payload)];
                if let Err(error) = client.all_in(Lane::Ordinary, NOTIFY, &params).await {
                    tracing::debug!("other replicas were not told: {error}");
                }
            }
            self.sending.store(false, Ordering::Release);
            // What came in between the last look and this.
            let empty = self.outbox.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if empty || self.sending.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Listens until the store is closed or forgotten; after a failure again, at longer and longer
    /// intervals.
    async fn listen(wakes: Weak<Wakes>) {
        const LONGEST_PAUSE_MS: i64 = 60_000;
        for failures in 0_u32.. {
            let Some(ours) = wakes.upgrade() else { return };
            let (driver, channel) = (ours.driver.clone(), ours.channel.clone());
            let pause = (250_i64 << failures.min(8)).min(LONGEST_PAUSE_MS);
            let pause = pause / 2 + ours.random.up_to(pause / 2);
            drop(ours);
            if let Err(error) = Wakes::listen_once(&wakes, driver, &channel).await {
                tracing::debug!("listening to PostgreSQL ended: {error}");
            }
            sleep_for(&SystemClock, pause).await;
        }
    }

    async fn listen_once(
        wakes: &Weak<Wakes>,
        driver: PgConnectOptions,
        channel: &str,
    ) -> sqlx::Result<()> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .min_connections(0)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .connect_lazy_with(driver);
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(channel).await?;
        while let Some(notification) = listener.try_recv().await? {
            let Some(ours) = wakes.upgrade() else { return Ok(()) };
            ours.heard(notification.payload());
        }
        Ok(())
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.close();
    }
}

/// News in as few notifications as their length allows; each job once.
fn parcels(origin: &str, mut news: Vec<News>) -> Vec<String> {
    news.sort_by(|a, b| (&a.namespace, &a.job).cmp(&(&b.namespace, &b.job)));
    news.dedup();
    let mut parcels = Vec::new();
    let mut lot: Vec<News> = Vec::new();
    let mut length = 0;
    let pack = |news: Vec<News>| {
        serde_json::to_string(&Parcel { origin: origin.to_owned(), news }).unwrap_or_default()
    };
    for one in news {
        let more = serde_json::to_string(&one).map_or(LONGEST, |text| text.len() + 1);
        if length + more > LONGEST - 100 && !lot.is_empty() {
            parcels.push(pack(std::mem::take(&mut lot)));
            length = 0;
        }
        length += more;
        lot.push(one);
    }
    if !lot.is_empty() {
        parcels.push(pack(lot));
    }
    parcels
}

#[cfg(test)]
#[path = "wakes_tests.rs"]
mod tests;
