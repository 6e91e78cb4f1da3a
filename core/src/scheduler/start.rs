//! From options to a scheduler, and from a scheduler to one that runs.

use std::sync::{Arc, Mutex, RwLock};

use tokio_util::sync::CancellationToken;

use crate::backend::contract::Backend;
use crate::backend::guard::Guard;
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Code, Error, Result};
use crate::events::Event;
use crate::random::Random;
use crate::scheduler::driver::{Driver, Mailbox, Message};
use crate::scheduler::options::{BackendSource, SchedulerOptions, SharedBackend};
use crate::scheduler::state::Job;
use crate::scheduler::{Inner, Scheduler, Started, State, check_process, not_started};

/// The embedded default store.
const DEFAULT_URL: &str = "sqlite:anarchon.db";

/// Variables by which orchestrators show themselves: there a file of one machine coordinates
/// nothing.
const ORCHESTRATORS: [&str; 5] = [
    "KUBERNETES_SERVICE_HOST",
    "ECS_CONTAINER_METADATA_URI_V4",
    "K_SERVICE",
    "FLY_APP_NAME",
    "DYNO",
];

/// How long `start` tries to reach a store (ms).
const START_TIMEOUT_MS: i64 = 10_000;

/// How long a single try may take at least: a refusal must have time to arrive, however short the
/// patience (ms).
const LEAST_DEADLINE_MS: i64 = 1_000;
/// How long a single try may take (ms).
const INIT_DEADLINE_MS: i64 = 15_000;

/// The longest wait between two tries to reach a store (ms).
const LONGEST_WAIT_MS: i64 = 2_000;

impl Scheduler {
    /// A scheduler that has not started. Touches no file, socket or thread.
    ///
    /// # Errors
    /// `INVALID_OPTION`, `BACKEND_REQUIRED`.
    pub fn new(options: SchedulerOptions) -> Result<Scheduler> {
        let naming = options.naming;
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        if let Some(namespace) = &options.namespace {
            check_namespace(namespace)?;
        }
        let timezone = options.timezone.unwrap_or_else(|| "UTC".to_owned());
        crate::schedule::zone::check(&timezone).map_err(|error| {
            Error::option(error.message()).in_context(&naming.write("timezone"))
        })?;
        if options.instance_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 255) {
            let name = naming.write("instanceId");
            return Err(Error::option(format!("{name} must have 1 to 255 bytes")));
        }
        let (source, notice) = choose_backend(options.backend, &clock)?;
        let shared = match source {
            BackendSource::Url(url) => SharedBackend::new(crate::backends::open(&url, &clock)?),
            BackendSource::Object(shared) => shared,
        };
        let root = shared.backend().clone();
        if clock.is_manual() && root.has_own_clock() {
            return Err(Error::option(format!(
                "a manual clock moves only schedulers on memory: and on backends of your own, and \
                 the backend {:?} has a clock of its own; leave the clock or the backend out",
                root.name()
            )));
        }
        let namespace = match options.namespace {
            Some(namespace) => namespace,
            None => default_namespace(&*root)?,
        };
        let backend: Arc<dyn Backend> = root.with_namespace(&namespace).unwrap_or(root);
        let inner = Inner {
            guard: Guard::new(backend, clock.clone()),
            shared,
            clock,
            random: options.random.unwrap_or_else(|| Arc::new(Random::system())),
            namespace,
            timezone,
            defaults: options.defaults,
            naming,
            places: options.max_concurrent_runs.unwrap_or(100),
            start_timeout_ms: options.start_timeout_ms.unwrap_or(START_TIMEOUT_MS),
            given_instance_id: options.instance_id,
            notice,
            listeners: RwLock::default(),
            state: Mutex::new(State::default()),
            registrations: tokio::sync::Notify::new(),
            here: Mutex::default(),
            reading: tokio::sync::Mutex::new(false),
        };
        Ok(Scheduler { inner: Arc::new(inner) })
    }

    /// Starts. With `wait` false returns at once and goes on trying to reach the store.
    ///
    /// Must be called within a tokio runtime: everything runs on it but the heartbeats.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE`, `BACKEND_REFUSED`, `SCHEMA_TOO_NEW`, and what the backend says.
    pub async fn start(&self, wait: bool) -> Result<()> {
        let Some(started) = self.begin()? else { return Ok(()) };
        self.inner.shared.join().await;
        if !wait {
            let scheduler = self.clone();
            tokio::spawn(async move {
                // A scheduler that is stopped meanwhile has nothing to open any more.
                let _stopped = scheduler.open(&started, i64::MAX).await;
            });
            return Ok(());
        }
        let opened = match self.open(&started, self.inner.start_timeout_ms).await {
            Ok(()) => self.await_registrations(false).await,
            refused => refused,
        };
        if let Err(error) = opened {
            // Nothing ran yet: the stop has nothing to wait for, and its report nothing to say.
            let _report = self.stop(Some(0)).await;
            return Err(error);
        }
        Ok(())
    }

    /// Spawns the driver; `None` if the scheduler runs already.
    fn begin(&self) -> Result<Option<Started>> {
        let inner = &self.inner;
        let mut state = inner.state();
        if let Some(started) = &state.started {
            check_process(started)?;
            return Ok(None);
        }
        let instance_id = match &inner.given_instance_id {
            Some(given) => given.clone(),
            // Drawn here and not before: a fork would copy it.
            None => draw_instance_id(&inner.random),
        };
        state.instance_id = Some(instance_id.clone());
        state.jobs.forget_answers();
        let (mailbox, receiver) = Mailbox::new(inner.clock.clone());
        let driver = Driver::new(inner.clone(), Arc::from(instance_id), mailbox.clone(), receiver);
        tokio::spawn(driver.live());
        let cancel = CancellationToken::new();
        let started = Started { mailbox, open: false, cancel, pid: std::process::id() };
        state.started = Some(started.clone());
        Ok(Some(started))
    }

    /// Reaches the store and hands the jobs over.
    async fn open(&self, started: &Started, patience_ms: i64) -> Result<()> {
        self.reach(started, patience_ms).await?;
        let mut state = self.inner.state();
        for job in state.jobs.iter() {
            let job = Job::new(job.spec.clone(), job.limits.clone());
            started.mailbox.post(Message::Add(Box::new(job)));
        }
        let current = state.started.as_mut();
        if let Some(now) = current.filter(|now| now.mailbox.is_same(&started.mailbox)) {
            now.open = true;
        }
        Ok(())
    }

    /// A store that does not answer is tried again; one that refuses is not.
    async fn reach(&self, started: &Started, patience_ms: i64) -> Result<()> {
        let clock = &*self.inner.clock;
        let until = clock.mono_ms().saturating_add(patience_ms);
        let mut wait = 50;
        let mut told = false;
        loop {
            let left =
                until.saturating_sub(clock.mono_ms()).clamp(LEAST_DEADLINE_MS, INIT_DEADLINE_MS);
            let tried = tokio::select! {
                biased;
                () = started.cancel.cancelled() => Err(not_started()),
                tried = self.inner.shared.init() => tried,
                () = sleep_for(clock, left) => Err(Error::unavailable(format!(
                    "backend {:?}, init: no answer within {left} ms",
                    self.backend_name()
                ))),
            };
            let Err(error) = tried else { return Ok(()) };
            let patient = patience_ms == i64::MAX;
            if error.code() != Some(Code::BackendUnavailable) {
                if patient && !started.cancel.is_cancelled() {
                    self.inner.emit(&Event::Error { error: error.clone(), job: None });
                }
                return Err(error);
            }
            if !told && patient {
                self.inner.emit(&Event::Error { error: error.clone(), job: None });
                self.inner.emit(&Event::StoreDown { message: error.message().to_owned() });
                told = true;
            }
            if clock.mono_ms().saturating_add(wait) > until {
                return Err(error);
            }
            tokio::select! {
                biased;
                () = started.cancel.cancelled() => return Err(not_started()),
                () = sleep_for(clock, wait) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT_MS);
        }
    }

    /// Waits until the store has spoken about every job; with `all` until it knows every one.
    pub(super) async fn await_registrations(&self, all: bool) -> Result<()> {
        loop {
            let change = self.inner.registrations.notified();
            tokio::pin!(change);
            change.as_mut().enable();
            if let Some(answer) = self.registrations(all) {
                return answer;
            }
            change.await;
        }
    }

    fn registrations(&self, all: bool) -> Option<Result<()>> {
        let state = self.inner.state();
        if state.started.is_none() {
            return Some(Err(not_started()));
        }
        let mut settled = true;
        for job in state.jobs.iter() {
            match &job.answer {
                // The store is away: it is tried again.
                Some(Err(error)) if error.code() == Some(Code::BackendUnavailable) => {
                    settled &= !all;
                }
                Some(Err(error)) => return Some(Err(error.clone())),
                Some(Ok(())) => {}
                None => settled = false,
            }
        }
        settled.then_some(Ok(()))
    }
}

/// The store that was named, or the embedded default with what is to be said about it.
fn choose_backend(
    given: Option<BackendSource>,
    clock: &Arc<dyn Clock>,
) -> Result<(BackendSource, Option<String>)> {
    if let Some(given) = given {
        return Ok((given, None));
    }
    if clock.is_manual() {
        return Ok((BackendSource::Url("memory:".to_owned()), None));
    }
    if let Some(url) = variable("ANARCHON_URL") {
        return Ok((BackendSource::Url(url), None));
    }
    if let Some(shown_by) = ORCHESTRATORS.into_iter().find(|name| std::env::var_os(name).is_some())
    {
        return Err(Error::new(
            Code::BackendRequired,
            format!(
                "no backend is named, and {shown_by} shows an orchestrator: the embedded default \
                 {DEFAULT_URL} would coordinate the processes of one machine only; set ANARCHON_URL \
                 or the backend option to a store that all replicas share (or write {DEFAULT_URL} \
                 out, if one machine is what you mean)"
            ),
        ));
    }
    let path = std::env::current_dir().unwrap_or_default().join("anarchon.db");
    let notice = format!(
        "no backend is named: using the embedded default {}, which coordinates the processes of \
         this machine only",
        path.display()
    );
    Ok((BackendSource::Url(DEFAULT_URL.to_owned()), Some(notice)))
}

/// The namespace of a scheduler that names none: what the backend's URL or options name goes before
/// the environment.
fn default_namespace(backend: &dyn Backend) -> Result<String> {
    const DEFAULT: &str = "default";
    if let Some(own) = backend.namespace().filter(|own| *own != DEFAULT) {
        return Ok(own.to_owned());
    }
    let namespace = variable("ANARCHON_NAMESPACE").unwrap_or_else(|| DEFAULT.to_owned());
    check_namespace(&namespace)?;
    Ok(namespace)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Checks a namespace, once for all stores.
///
/// # Errors
/// `INVALID_OPTION`.
pub(crate) fn check_namespace(namespace: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if (1..=64).contains(&namespace.len()) && namespace.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::option(format!(
        "namespace is {namespace:?}; allowed are 1 to 64 characters of a-z, 0-9, _ and -"
    )))
}

fn draw_instance_id(random: &Random) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "host".to_owned());
    let token = random.token();
    format!("{}:{}:{}", host.trim(), std::process::id(), &token[..8])
}
