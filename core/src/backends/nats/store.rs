//! A store that is open, closed or not yet open.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::check;
use super::engine::{Engine, Loaded};
use super::link::{Link, Links};
use super::options::NatsOptions;
use super::source::Source;
use crate::backends::own::Owns;
use crate::error::{Error, Result};
use crate::lease::model::JobState;
use crate::random::Random;

/// A store in NATS JetStream, with leases.
pub struct NatsBackend {
    pub(super) shared: Arc<Shared>,
    pub(super) namespace: String,
    /// Another namespace of a store that somebody else opened.
    pub(super) is_view: bool,
}

/// What the namespaces of a store share.
pub(super) struct Shared {
    pub(super) options: Arc<NatsOptions>,
    pub(super) links: Links,
    pub(super) random: Random,
    pub(super) owns: Owns<Loaded>,
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// What a store has been opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Closed,
    Reader,
    Full,
}

struct State {
    access: Access,
    source: Option<Arc<Source>>,
    closing: CancellationToken,
}

impl NatsBackend {
    /// A store on the servers that the options name. Touches nothing before it is initialised.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a value that is not allowed.
    ///
    /// # Examples
    /// ```
    /// use anarchon::backends::nats::{NatsBackend, NatsOptions};
    ///
    /// let mut options = NatsOptions::new("bus.example");
    /// options.namespace = "staging".to_owned();
    /// let backend = NatsBackend::with_options(options)?;
    /// # Ok::<(), anarchon::Error>(())
    /// ```
    pub fn with_options(options: NatsOptions) -> Result<NatsBackend> {
        options.check()?;
        let namespace = options.namespace.clone();
        let options = Arc::new(options);
        let closing = CancellationToken::new();
        let shared = Arc::new(Shared {
            links: Links::new(options.clone()),
            options,
            random: Random::system(),
            owns: Owns::of(256),
            opening: tokio::sync::Mutex::default(),
            state: Mutex::new(State { access: Access::Closed, source: None, closing }),
        });
        Ok(NatsBackend { shared, namespace, is_view: false })
    }

    /// A store on the servers that a URL names: `nats://user:password@host:port,host:port`, and
    /// likewise with `nats+tls` and `tls`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed.
    pub fn from_url(url: &str) -> Result<NatsBackend> {
        NatsBackend::with_options(NatsOptions::from_url(url)?)
    }

    /// The way in which calls are decided, while the store is open.
    pub(super) fn engine(&self) -> Result<Engine<'_>> {
        let source = self.shared.source()?;
        Ok(Engine { shared: &self.shared, namespace: &self.namespace, source })
    }

    /// What is stored of a job, for tests that compare.
    ///
    /// # Errors
    /// Whatever reading fails with.
    pub async fn state(&self, job: &str) -> Result<JobState> {
        let engine = self.engine()?;
        let link = self.shared.links.take().await?;
        let api = self.shared.api(&link);
        let Loaded { mut stored, .. } = engine.load(&api, job).await?;
        let archives = stored.all_archives();
        match engine.fill(&api, &mut stored, archives).await? {
            true => Ok(stored.state),
            false => Err(Error::unavailable("what is recorded was changed while it was read")),
        }
    }
}

impl Shared {
    pub(super) fn api<'a>(&'a self, link: &'a Link) -> Api<'a> {
        Api { link, options: &self.options }
    }

    fn source(&self) -> Result<Arc<Source>> {
        let source = self.state.lock().unwrap_or_else(PoisonError::into_inner).source.clone();
        source.ok_or_else(|| {
            Error::unavailable(
                "the nats store is not open: it was not initialised yet, or has been closed",
            )
        })
    }

    fn access(&self) -> Access {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).access
    }

    /// Cancelled when the store is closed.
    pub(super) fn closing(&self) -> CancellationToken {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closing.clone()
    }

    /// Connects and checks the server, unless that has been done.
    pub(super) async fn open(&self, access: Access) -> Result<()> {
        let _opening = self.opening.lock().await;
        if self.access() >= access {
            return Ok(());
        }
        let link = self.links.take().await?;
        let checked = check::server(&self.options, &link, access == Access::Reader).await;
        if checked.is_err() && self.access() == Access::Closed {
            self.links.close();
        }
        let source = checked?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.access = access;
        state.source = Some(Arc::new(source));
        Ok(())
    }

    /// Gives up all connections; the store can be opened again.
    pub(super) async fn shut(&self) {
        let _opening = self.opening.lock().await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.access = Access::Closed;
        state.source = None;
        std::mem::take(&mut state.closing).cancel();
        drop(state);
        self.owns.clear();
        self.links.close();
    }
}
