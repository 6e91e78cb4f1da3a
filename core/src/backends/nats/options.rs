//! How a NATS store is set up, in code or in a URL.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::backends::given::{self, decoded, in_range, number, truth, word};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// How a NATS store is set up.
///
/// # Examples
/// ```
/// use anarchon::backends::nats::NatsOptions;
///
/// let options = NatsOptions::from_url("nats://app:secret@n1.example,n2.example:4333?replicas=3")?;
/// assert_eq!(options.servers, ["n1.example:4222", "n2.example:4333"]);
/// assert_eq!(options.replicas, Some(3));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), anarchon::Error>(())
/// ```
#[derive(Clone)]
pub struct NatsOptions {
    /// The servers, each `host:port`: one, or several of a cluster.
    pub servers: Vec<String>,
    /// Whether connections are encrypted (`nats+tls://`, `tls://`).
    pub tls: bool,
    /// The user to authenticate as.
    pub username: Option<String>,
    /// The user's password. Never shown.
    pub password: Option<String>,
    /// A token in place of user and password. Never shown.
    pub token: Option<String>,
    /// A file with the seed of an nkey.
    pub nkey_file: Option<PathBuf>,
    /// A credentials file (`.creds`), with a JWT and the seed of its nkey.
    pub credentials_file: Option<PathBuf>,
    /// A file with the certificates (PEM) of the authorities to trust in place of the system's.
    pub tls_ca: Option<PathBuf>,
    /// A file with the client's certificate (PEM); needs `tls_key`.
    pub tls_cert: Option<PathBuf>,
    /// A file with the key (PEM) of the client's certificate.
    pub tls_key: Option<PathBuf>,
    /// The domain of JetStream, if it is not the server's own.
    pub domain: Option<String>,
    /// Keeps applications and environments on one server apart: 1 to 64 of `[a-z0-9_-]`.
    pub namespace: String,
    /// The name of the stream, and what all subjects begin with: 1 to 64 of `[A-Za-z0-9_-]`.
    pub prefix: String,
    /// How many servers of a cluster keep the stream: 1, 3 or 5. `None` takes the stream as it is,
    /// and makes one with 1.
    pub replicas: Option<u32>,
    /// How long connecting and a single answer may take (ms).
    pub call_timeout_ms: i64,
    /// Takes a stream in the server's memory, and makes one if there is none: a restart of the
    /// server forgets what it holds, and slots that are still in time would run again.
    pub allow_memory: bool,
    /// A clock in place of the server's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// So many ended runs are archived together (default 16), for tests.
    pub archive_together: usize,
}

/// The options that a URL may have.
const OPTIONS: [&str; 11] = [
    "namespace",
    "prefix",
    "replicas",
    "nkeyFile",
    "credentialsFile",
    "tlsCa",
    "tlsCert",
    "tlsKey",
    "domain",
    "callTimeoutMs",
    "allowMemory",
];

const PORT: u16 = 4222;

impl NatsOptions {
    /// The defaults for a server, `host` or `host:port`.
    pub fn new(server: impl Into<String>) -> NatsOptions {
        let server = server.into();
        NatsOptions {
            servers: vec![address(&server).unwrap_or(server)],
            tls: false,
            username: None,
            password: None,
            token: None,
            nkey_file: None,
            credentials_file: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            domain: None,
            namespace: "default".to_owned(),
            prefix: "anarchon".to_owned(),
            replicas: None,
            call_timeout_ms: 5_000,
            allow_memory: false,
            clock: None,
            archive_together: 16,
        }
    }

    /// Reads `nats://user:password@host:port,host:port`, with options in the query. A user without
    /// a password is a token, as NATS itself has it; `nats+tls` and `tls` are with TLS.
    ///
    /// # Errors
    /// `INVALID_OPTION` for another URL, an unknown option or a value that is not allowed. No
    /// message shows the URL's user info.
    pub fn from_url(url: &str) -> Result<NatsOptions> {
        let unreadable = || {
            Error::option(
                "the NATS URL cannot be read; write nats://user:password@host:4222, or nats+tls:// \
                 or tls:// with TLS, with commas between several host:port",
            )
        };
        let (scheme, rest) = url.split_once(':').ok_or_else(unreadable)?;
        let tls = match scheme {
            "nats" => false,
            "nats+tls" | "tls" => true,
            other => {
                return Err(Error::option(format!(
                    "the NATS URL begins with {other:?}; allowed are nats, nats+tls and tls"
                )));
            }
        };
        let rest = rest.strip_prefix("//").ok_or_else(unreadable)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, path) = place.split_once('/').unwrap_or((place, ""));
        // A password with a `?` or `/` that is not escaped ends up here: nothing of it may be shown.
        if (query.contains('@') || path.contains('@')) && !place.contains('@') {
            return Err(unreadable());
        }
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, place),
        };
        let mut options = NatsOptions::new("127.0.0.1");
        options.tls = tls;
        if !hosts.is_empty() {
            let hosts = decoded(hosts, "the servers of the NATS URL")?;
            options.servers = hosts.split(',').map(address).collect::<Result<_>>()?;
        }
        options.set_user(user)?;
        given::set_all(query, "NATS", |name, value| options.set(name, value))?;
        options.check()?;
        if !path.is_empty() {
            return Err(Error::option(
                "the NATS URL has a path behind its servers; streams are named by prefix=",
            ));
        }
        Ok(options)
    }

    fn set_user(&mut self, user: Option<&str>) -> Result<()> {
        match user.map(|user| user.split_once(':').ok_or(user)) {
            None | Some(Err("")) => {}
            Some(Err(token)) => {
                self.token = Some(decoded(token, "the token of the NATS URL")?);
            }
            Some(Ok((user, password))) => {
                self.username = Some(decoded(user, "the user of the NATS URL")?);
                self.password = Some(decoded(password, "the password of the NATS URL")?);
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "namespace" => value.clone_into(&mut self.namespace),
            "prefix" => value.clone_into(&mut self.prefix),
            "replicas" => self.replicas = Some(number(name, value)?),
            "nkeyFile" => self.nkey_file = Some(value.into()),
            "credentialsFile" => self.credentials_file = Some(value.into()),
            "tlsCa" => self.tls_ca = Some(value.into()),
            "tlsCert" => self.tls_cert = Some(value.into()),
            "tlsKey" => self.tls_key = Some(value.into()),
            "domain" => self.domain = Some(value.to_owned()),
            "callTimeoutMs" => self.call_timeout_ms = number(name, value)?,
            "allowMemory" => self.allow_memory = truth(name, value)?,
            unknown => return Err(given::unknown_option("NATS", unknown, &OPTIONS)),
        }
        Ok(())
    }

    /// Refuses values that are not allowed. Touches no server and no file.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, its value, what is allowed.
    pub fn check(&self) -> Result<()> {
        if self.servers.is_empty() {
            return Err(Error::option("the NATS servers are none; write nats://host:4222"));
        }
        for server in &self.servers {
            address(server)?;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        given::namespace(&self.namespace)?;
        word("prefix", &self.prefix, 64, "A-Z, a-z, 0-9, _ and -", plain)?;
        if let Some(domain) = &self.domain {
            word("domain", domain, 64, "A-Z, a-z, 0-9, _ and -", plain)?;
        }
        in_range("callTimeoutMs", self.call_timeout_ms, 1, 600_000)?;
        if let Some(replicas) = self.replicas
            && ![1, 3, 5].contains(&replicas)
        {
            return Err(Error::option(format!("replicas is {replicas}; allowed are 1, 3 and 5")));
        }
        self.check_user()?;
        let [ca, cert, key] = [&self.tls_ca, &self.tls_cert, &self.tls_key].map(Option::as_deref);
        given::certificates(self.tls, ca, cert, key, "nats+tls")
    }

    fn check_user(&self) -> Result<()> {
        if self.username.is_some() != self.password.is_some() {
            return Err(Error::option(
                "the user and the password of NATS belong together; give both, or a token",
            ));
        }
        let ways = [
            self.username.is_some(),
            self.token.is_some(),
            self.nkey_file.is_some(),
            self.credentials_file.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(Error::option(
                "NATS is given several ways to let us in; allowed is one of user and password, \
                 token, nkeyFile and credentialsFile",
            ));
        }
        Ok(())
    }

    /// Where the servers are, without user and password.
    pub fn address(&self) -> String {
        self.servers.join(",")
    }
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions")
            .field("servers", &self.servers)
            .field("tls", &self.tls)
            .field("domain", &self.domain)
            .field("namespace", &self.namespace)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// `host:port`, with the usual port where none is given; an IPv6 address is in brackets.
fn address(server: &str) -> Result<String> {
    let refused = || {
        Error::option(format!(
            "a NATS server is {server:?}; wanted is host or host:port, with commas between several \
             and an IPv6 address in brackets"
        ))
    };
    let server = server.trim();
    let bracketed = server.starts_with('[');
    let (host, port) = match server.rsplit_once(':') {
        Some((host, _)) if bracketed && !host.ends_with(']') => (server, None),
        Some((host, port)) => (host, Some(port)),
        None => (server, None),
    };
    let port: u16 = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| refused()))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_host = match host.strip_prefix('[') {
        Some(inner) => {
            inner.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok())
        }
        None => !host.is_empty() && host.chars().all(is_plain),
    };
    if is_host && port != 0 { Ok(format!("{host}:{port}")) } else { Err(refused()) }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
