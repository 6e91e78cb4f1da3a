//! How a RabbitMQ store is set up, in code or in a URL.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::backends::given::{self, decoded, in_range, number, word};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};

/// How a RabbitMQ store is set up.
///
/// # Examples
/// ```
/// use anarchon::backends::rabbitmq::RabbitMqOptions;
///
/// let url = "amqps://app:secret@mq.example/jobs?dedupeWindowMs=7200000";
/// let options = RabbitMqOptions::from_url(url)?;
/// assert_eq!((options.host.as_str(), options.port, options.vhost.as_str()), ("mq.example", 5671, "jobs"));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), anarchon::Error>(())
/// ```
#[derive(Clone)]
pub struct RabbitMqOptions {
    /// The server's name or address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The user to authenticate as. Never shown.
    pub username: String,
    /// The password. Never shown.
    pub password: String,
    /// The virtual host.
    pub vhost: String,
    /// Whether the connection is encrypted (`amqps://`).
    pub tls: bool,
    /// A file with the certificates (PEM) of authorities to trust beside the system's.
    pub tls_ca: Option<PathBuf>,
    /// A file with the client's certificate (PEM); needs `tls_key`.
    pub tls_cert: Option<PathBuf>,
    /// A file with the key (PEM, PKCS#8) of the client's certificate.
    pub tls_key: Option<PathBuf>,
    /// Keeps applications and environments on one server apart: 1 to 64 of `[a-z0-9_-]`.
    pub namespace: String,
    /// What the names of all queues begin with: 1 to 64 of `[A-Za-z0-9._-]`, not `amq.`.
    pub prefix: String,
    /// How long a claimed slot is remembered (ms), 1 s to 14 days. The same on every replica.
    pub dedupe_window_ms: i64,
    /// How many claims are under way at once, each on a channel of its own; 1 to 256.
    pub channels: usize,
    /// How many bytes of records are kept for a job, 1 MiB to 1 GiB.
    pub history_bytes: i64,
    /// How long connecting and a single answer may take (ms).
    pub call_timeout_ms: i64,
    /// The clock by which slots are too early or too old.
    pub clock: Arc<dyn Clock>,
}

/// The options that a URL may have.
const OPTIONS: [&str; 9] = [
    "namespace",
    "prefix",
    "dedupeWindowMs",
    "channels",
    "historyBytes",
    "callTimeoutMs",
    "tlsCa",
    "tlsCert",
    "tlsKey",
];

const HOUR: i64 = 3_600_000;
const MIB: i64 = 1024 * 1024;

impl RabbitMqOptions {
    /// The defaults for a server.
    pub fn new(host: impl Into<String>) -> RabbitMqOptions {
        RabbitMqOptions {
            host: host.into(),
            port: 5672,
            username: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
            tls: false,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            namespace: "default".to_owned(),
            prefix: "anarchon".to_owned(),
            dedupe_window_ms: HOUR,
            channels: 16,
            history_bytes: 2 * MIB,
            call_timeout_ms: 5_000,
            clock: Arc::new(SystemClock),
        }
    }

    /// Reads `amqp://user:password@host:port/vhost`, with options in the query; `amqps` is with
    /// TLS. Without a path, or with an empty one, the virtual host is `/`.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed. No
    /// message shows the URL's user info.
    pub fn from_url(url: &str) -> Result<RabbitMqOptions> {
        let url = Url::parse(url).map_err(|error| {
            Error::option(format!(
                "the RabbitMQ URL cannot be read ({error}); write \
                 amqp://user:password@host:5672/vhost"
            ))
        })?;
        let mut options = RabbitMqOptions::new("127.0.0.1");
        options.tls = match url.scheme() {
            "amqp" => false,
            "amqps" => true,
            other => {
                return Err(Error::option(format!(
                    "the RabbitMQ URL begins with {other:?}; allowed are amqp and amqps"
                )));
            }
        };
        if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
            decoded(host, "the host of the RabbitMQ URL")?
                .trim_matches(['[', ']'])
                .clone_into(&mut options.host);
        }
        options.port = url.port().unwrap_or(if options.tls { 5671 } else { 5672 });
        if !url.username().is_empty() {
            options.username = decoded(url.username(), "the user of the RabbitMQ URL")?;
        }
        if let Some(password) = url.password() {
            options.password = decoded(password, "the password of the RabbitMQ URL")?;
        }
        let path = url.path().strip_prefix('/').unwrap_or_default();
        if !path.is_empty() {
            options.vhost = decoded(path, "the virtual host of the RabbitMQ URL")?;
        }
        given::set_all(url.query().unwrap_or(""), "RabbitMQ", |name, value| {
            options.set(name, value)
        })?;
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "namespace" => value.clone_into(&mut self.namespace),
            "prefix" => value.clone_into(&mut self.prefix),
            "dedupeWindowMs" => self.dedupe_window_ms = number(name, value)?,
            "channels" => self.channels = number(name, value)?,
            "historyBytes" => self.history_bytes = number(name, value)?,
            "callTimeoutMs" => self.call_timeout_ms = number(name, value)?,
            "tlsCa" => self.tls_ca = Some(value.into()),
            "tlsCert" => self.tls_cert = Some(value.into()),
            "tlsKey" => self.tls_key = Some(value.into()),
            unknown => return Err(given::unknown_option("RabbitMQ", unknown, &OPTIONS)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no server and no file.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        if self.host.is_empty() {
            return Err(Error::option("the RabbitMQ host is empty; write amqp://host:5672"));
        }
        if self.vhost.len() > 255 {
            return Err(Error::option("the virtual host is longer than 255 bytes"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        given::namespace(&self.namespace)?;
        word("prefix", &self.prefix, 64, "A-Z, a-z, 0-9, ., _ and -", plain)?;
        if self.prefix == "amq" || self.prefix.starts_with("amq.") {
            let prefix = &self.prefix;
            return Err(Error::option(format!(
                "the prefix is {prefix:?}; names that begin with amq. belong to RabbitMQ itself"
            )));
        }
        in_range("dedupeWindowMs", self.dedupe_window_ms, 1_000, 14 * 24 * HOUR)?;
        in_range("channels", i64::try_from(self.channels).unwrap_or(i64::MAX), 1, 256)?;
        in_range("historyBytes", self.history_bytes, MIB, 1024 * MIB)?;
        in_range("callTimeoutMs", self.call_timeout_ms, 1, 600_000)?;
        let [ca, cert, key] = [&self.tls_ca, &self.tls_cert, &self.tls_key].map(Option::as_deref);
        given::certificates(self.tls, ca, cert, key, "amqps")
    }

    /// Where the server is, without user and password.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// How long a queue of a claim lives (ms): longer than is promised, because a slot may be
    /// claimed a little before its time, and clocks of replicas differ.
    pub(super) fn expires_ms(&self) -> i64 {
        self.dedupe_window_ms + self.dedupe_window_ms.min(60_000)
    }
}

impl fmt::Debug for RabbitMqOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqOptions")
            .field("address", &self.address())
            .field("vhost", &self.vhost)
            .field("tls", &self.tls)
            .field("namespace", &self.namespace)
            .field("prefix", &self.prefix)
            .field("dedupe_window_ms", &self.dedupe_window_ms)
            .field("channels", &self.channels)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
