//! How a Redis store is set up, in code or in a URL.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::backends::given::{self, decoded, in_range, number, truth, word};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// How a Redis store is set up.
///
/// # Examples
/// ```
/// use anarchon::backends::redis::RedisOptions;
///
/// let options = RedisOptions::from_url("rediss://app:secret@cache.example:6380/2?waitReplicas=1")?;
/// assert_eq!((options.host.as_str(), options.port, options.db), ("cache.example", 6380, 2));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), anarchon::Error>(())
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    /// The server's name or address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The user to authenticate as, if not the default one.
    pub username: Option<String>,
    /// The password, if one is needed. Never shown.
    pub password: Option<String>,
    /// The number of the database; in a cluster always 0.
    pub db: i64,
    /// Whether the connection is encrypted (`rediss://`, `valkeys://`).
    pub tls: bool,
    /// A file with the certificates (PEM) of the authorities to trust in place of the system's.
    pub tls_ca: Option<PathBuf>,
    /// A file with the client's certificate (PEM); needs `tls_key`.
    pub tls_cert: Option<PathBuf>,
    /// A file with the key (PEM) of the client's certificate.
    pub tls_key: Option<PathBuf>,
    /// Whether the server is a node of a Redis Cluster.
    pub cluster: bool,
    /// More nodes of the cluster (`host:port`), in case the first one is away at the start.
    pub nodes: Vec<String>,
    /// Keeps applications and environments on one server apart: 1 to 64 of `[a-z0-9_-]`.
    pub namespace: String,
    /// What all keys begin with: 1 to 64 of `[A-Za-z0-9._-]`.
    pub prefix: String,
    /// How many connections are used, beside one that is kept for heartbeats; 1 to 64. Calls that
    /// fall together share a connection without waiting for each other.
    pub pool: usize,
    /// How many replicas must have a change before it counts as made; 0 asks none. With fewer the
    /// outcome is unknown, and the call is repeated.
    pub wait_replicas: u32,
    /// How long replicas are waited for (ms).
    pub wait_timeout_ms: i64,
    /// How long connecting and a single answer may take (ms).
    pub call_timeout_ms: i64,
    /// Starts in spite of an eviction policy that can drop the claims of won slots.
    pub allow_eviction: bool,
    /// A clock in place of the server's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

/// The options that a URL may have.
const OPTIONS: [&str; 12] = [
    "namespace",
    "prefix",
    "pool",
    "cluster",
    "nodes",
    "tlsCa",
    "tlsCert",
    "tlsKey",
    "waitReplicas",
    "waitTimeoutMs",
    "callTimeoutMs",
    "allowEviction",
];

impl RedisOptions {
    /// The defaults for a server.
    pub fn new(host: impl Into<String>) -> RedisOptions {
        RedisOptions {
            host: host.into(),
            port: 6379,
            username: None,
            password: None,
            db: 0,
            tls: false,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            cluster: false,
            nodes: Vec::new(),
            namespace: "default".to_owned(),
            prefix: "anarchon".to_owned(),
            pool: 1,
            wait_replicas: 0,
            wait_timeout_ms: 1_000,
            call_timeout_ms: 5_000,
            allow_eviction: false,
            clock: None,
        }
    }

    /// Reads `redis://user:password@host:port/db`, with options in the query. `rediss` is with TLS;
    /// `valkey` and `valkeys` mean the same two.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed. No
    /// message shows the URL's user info.
    pub fn from_url(url: &str) -> Result<RedisOptions> {
        let url = Url::parse(url).map_err(|error| {
            Error::option(format!(
                "the Redis URL cannot be read ({error}); write redis://user:password@host:6379/0"
            ))
        })?;
        let mut options = RedisOptions::new("127.0.0.1");
        options.tls = match url.scheme() {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            other => {
                return Err(Error::option(format!(
                    "the Redis URL begins with {other:?}; allowed are redis, rediss, valkey and \
                     valkeys"
                )));
            }
        };
        if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
            decoded(host, "the host of the Redis URL")?
                .trim_matches(['[', ']'])
                .clone_into(&mut options.host);
        }
        options.port = url.port().unwrap_or(6379);
        let user = decoded(url.username(), "the user of the Redis URL")?;
        options.username = Some(user).filter(|user| !user.is_empty());
        let secret = url.password().map(|text| decoded(text, "the password of the Redis URL"));
        options.password = secret.transpose()?;
        let path = url.path().trim_matches('/');
        if !path.is_empty() {
            options.db = number("the database of the Redis URL", path)?;
        }
        given::set_all(url.query().unwrap_or(""), "Redis", |name, value| options.set(name, value))?;
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "namespace" => value.clone_into(&mut self.namespace),
            "prefix" => value.clone_into(&mut self.prefix),
            "pool" => self.pool = number(name, value)?,
            "cluster" => self.cluster = truth(name, value)?,
            "nodes" => self.nodes = value.split(',').map(|node| node.trim().to_owned()).collect(),
            "tlsCa" => self.tls_ca = Some(value.into()),
            "tlsCert" => self.tls_cert = Some(value.into()),
            "tlsKey" => self.tls_key = Some(value.into()),
            "waitReplicas" => self.wait_replicas = number(name, value)?,
            "waitTimeoutMs" => self.wait_timeout_ms = number(name, value)?,
            "callTimeoutMs" => self.call_timeout_ms = number(name, value)?,
            "allowEviction" => self.allow_eviction = truth(name, value)?,
            unknown => return Err(given::unknown_option("Redis", unknown, &OPTIONS)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no server and no file.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        if self.host.is_empty() {
            return Err(Error::option("the Redis host is empty; write redis://host:6379"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        given::namespace(&self.namespace)?;
        word("prefix", &self.prefix, 64, "A-Z, a-z, 0-9, ., _ and -", plain)?;
        in_range("pool", i64::try_from(self.pool).unwrap_or(i64::MAX), 1, 64)?;
        in_range("waitReplicas", i64::from(self.wait_replicas), 0, 100)?;
        in_range("waitTimeoutMs", self.wait_timeout_ms, 1, 600_000)?;
        in_range("callTimeoutMs", self.call_timeout_ms, 1, 600_000)?;
        in_range("the database", self.db, 0, if self.cluster { 0 } else { 1_000_000 })?;
        if self.wait_replicas > 0 && self.wait_timeout_ms >= self.call_timeout_ms {
            return Err(Error::option(format!(
                "waitTimeoutMs is {}; it must be below callTimeoutMs, which is {}",
                self.wait_timeout_ms, self.call_timeout_ms
            )));
        }
        if !self.cluster && !self.nodes.is_empty() {
            return Err(Error::option("nodes are those of a cluster; add cluster=true"));
        }
        for node in &self.nodes {
            node_address(node)?;
        }
        let [ca, cert, key] = [&self.tls_ca, &self.tls_cert, &self.tls_key].map(Option::as_deref);
        given::certificates(self.tls, ca, cert, key, "rediss")
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("address", &self.address())
            .field("db", &self.db)
            .field("tls", &self.tls)
            .field("cluster", &self.cluster)
            .field("namespace", &self.namespace)
            .field("prefix", &self.prefix)
            .field("pool", &self.pool)
            .field("wait_replicas", &self.wait_replicas)
            .finish_non_exhaustive()
    }
}

/// The two parts of `host:port`.
pub(super) fn node_address(node: &str) -> Result<(String, u16)> {
    let parts = node.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_matches(['[', ']']);
        Some((host.to_owned(), port.parse().ok()?)).filter(|_| !host.is_empty())
    });
    parts.ok_or_else(|| {
        Error::option(format!("nodes has {node:?}; wanted are host:port, with commas between"))
    })
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
