//! A connection to a server or to a cluster, and the sending of commands over it.

use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::io::tcp::TcpSettings;
use redis::{
    Arg, AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    FromRedisValue, IntoConnectionInfo, RedisConnectionInfo, RedisResult, TlsCertificates, TlsMode,
    Value,
};

use super::failure;
use super::options::{RedisOptions, node_address};
use crate::error::{Error, Result};

/// A connection. Cloning shares it; calls that fall together travel together.
#[derive(Clone)]
pub(super) enum Link {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// After a change: how many replicas are waited for, and how long (ms).
#[derive(Clone, Copy)]
pub(super) struct Copies {
    pub(super) wanted: u32,
    pub(super) timeout_ms: i64,
}

/// What came back for one command.
pub(super) struct Reply {
    pub(super) value: RedisResult<Value>,
    /// How many replicas have it, if that was asked.
    pub(super) copies: Option<RedisResult<i64>>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` if the server cannot be reached, `BACKEND_REFUSED` if it does not let
    /// us in, `INVALID_OPTION` for TLS files that cannot be read.
    pub(super) async fn open(options: &RedisOptions) -> Result<Link> {
        let timeout = call_timeout(options);
        if options.cluster {
            let opened = match cluster_client(options)? {
                Ok(client) => client.get_async_connection().await,
                Err(error) => Err(error),
            };
            return opened.map(Link::Cluster).map_err(|error| failure::told(options, &error));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let opened = match client(options)? {
            Ok(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Err(error) => Err(error),
        };
        opened.map(Link::Server).map_err(|error| failure::told(options, &error))
    }

    /// Sends commands together; one reply each, in order. In a cluster each finds its own node.
    pub(super) async fn send(&self, commands: Vec<Cmd>, copies: Option<Copies>) -> Vec<Reply> {
        match self {
            Link::Server(connection) => send_to_server(connection.clone(), commands, copies).await,
            Link::Cluster(connection) => {
                let sent = commands
                    .into_iter()
                    .map(|command| send_to_node(connection.clone(), command, copies));
                join_all(sent).await
            }
        }
    }

    /// Sends commands that concern the server itself; in a cluster, one of its nodes.
    pub(super) async fn tell<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match self {
            Link::Server(connection) => command.query_async(&mut connection.clone()).await,
            Link::Cluster(connection) => {
                let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                let value = connection.clone().route_command(command.clone(), route).await?;
                Ok(T::from_redis_value(value.extract_error()?)?)
            }
        }
    }

    /// Sends a command about a key, to whoever keeps it.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match self {
            Link::Server(connection) => command.query_async(&mut connection.clone()).await,
            Link::Cluster(connection) => command.query_async(&mut connection.clone()).await,
        }
    }
}

fn wait(copies: Copies) -> Cmd {
    let mut command = redis::cmd("WAIT");
    command.arg(copies.wanted).arg(copies.timeout_ms);
    command
}

/// One pipeline. `WAIT` at its end speaks for all that this connection has changed before it.
async fn send_to_server(
    mut connection: MultiplexedConnection,
    commands: Vec<Cmd>,
    copies: Option<Copies>,
) -> Vec<Reply> {
    let count = commands.len();
    let mut pipeline = redis::Pipeline::with_capacity(count + 1);
    pipeline.ignore_errors();
    for command in commands {
        pipeline.add_command(command);
    }
    if let Some(copies) = copies {
        pipeline.add_command(wait(copies));
    }
    let replies: RedisResult<Vec<RedisResult<Value>>> = pipeline.query_async(&mut connection).await;
    let all_alike = |error: redis::RedisError| {
        let failed = || Reply { value: Err(error.clone()), copies: None };
        (0..count).map(|_| failed()).collect()
    };
    match replies {
        Ok(mut values) => {
            let copies = copies.and_then(|_| values.pop()).map(|had| {
                let had = had?;
                Ok(i64::from_redis_value(had)?)
            });
            let replies = values.into_iter();
            replies.map(|value| Reply { value, copies: copies.clone() }).collect()
        }
        Err(error) => all_alike(error),
    }
}

/// One command to the node that keeps its keys, and then the question to the same node.
async fn send_to_node(
    mut connection: ClusterConnection,
    command: Cmd,
    copies: Option<Copies>,
) -> Reply {
    let value = command.query_async(&mut connection).await;
    let route = copies.filter(|_| value.is_ok()).zip(keeper(&command));
    let copies = match route {
        Some((copies, route)) => {
            let had = connection.route_command(wait(copies), route).await;
            Some(had.and_then(|had| Ok(i64::from_redis_value(had)?)))
        }
        None => None,
    };
    Reply { value, copies }
}

/// The node that keeps the keys of a script's call: `EVALSHA hash count key …`.
fn keeper(command: &Cmd) -> Option<RoutingInfo> {
    match command.args_iter().nth(3)? {
        Arg::Simple(key) => {
            let route = Route::with_key(key, SlotAddr::Master);
            Some(RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route)))
        }
        _ => None,
    }
}

fn call_timeout(options: &RedisOptions) -> Duration {
    Duration::from_millis(options.call_timeout_ms.unsigned_abs())
}

fn info(options: &RedisOptions, host: &str, port: u16) -> RedisResult<ConnectionInfo> {
    let (host, tls) = (host.to_owned(), options.tls);
    let address = match tls {
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host, port),
    };
    let mut redis = RedisConnectionInfo::default().set_db(options.db);
    if let Some(username) = &options.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = &options.password {
        redis = redis.set_password(password);
    }
    let tcp = TcpSettings::default().set_nodelay(true);
    Ok(address.into_connection_info()?.set_redis_settings(redis).set_tcp_settings(tcp))
}

/// A client of one server. The outer error is one of the options, the inner one of the library.
pub(super) fn client(options: &RedisOptions) -> Result<RedisResult<Client>> {
    let certificates = certificates(options)?;
    let info = info(options, &options.host, options.port);
    Ok(info.and_then(|info| match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }))
}

fn cluster_client(options: &RedisOptions) -> Result<RedisResult<ClusterClient>> {
    let certificates = certificates(options)?;
    let mut places = vec![(options.host.clone(), options.port)];
    for node in &options.nodes {
        places.push(node_address(node)?);
    }
    let nodes: RedisResult<Vec<ConnectionInfo>> =
        places.iter().map(|(host, port)| info(options, host, *port)).collect();
    let timeout = call_timeout(options);
    Ok(nodes.and_then(|nodes| {
        let mut builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(timeout)
            .response_timeout(timeout)
            .overall_response_timeout(Some(timeout))
            .tcp_settings(TcpSettings::default().set_nodelay(true));
        if let Some(certificates) = certificates {
            builder = builder.tls(TlsMode::Secure).certs(certificates);
        }
        builder.build()
    }))
}

fn certificates(options: &RedisOptions) -> Result<Option<TlsCertificates>> {
    if !options.tls {
        return Ok(None);
    }
    // The first provider that a process names is its provider: ours, or one that was there before.
    let _before = rustls::crypto::ring::default_provider().install_default();
    let read = |name: &str, file: &Option<std::path::PathBuf>| -> Result<Option<Vec<u8>>> {
        let Some(path) = file else { return Ok(None) };
        let text = std::fs::read(path);
        text.map(Some).map_err(|error| {
            Error::option(format!("{name} is {path:?}, which cannot be read: {error}"))
        })
    };
    let root_cert = read("tlsCa", &options.tls_ca)?;
    let cert = read("tlsCert", &options.tls_cert)?;
    let key = read("tlsKey", &options.tls_key)?;
    let client_tls =
        cert.zip(key).map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}
