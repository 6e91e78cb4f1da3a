//! A proxy in front of a server that counts round trips, and that can fall silent or break off.
//!
//! A round trip is a turn of direction: something from the client after something from the server.
//! So statements that are sent together count once, as the time they take on a real network does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What a proxy has seen, and what it shall do.
#[derive(Default)]
struct State {
    turns: AtomicU64,
    bytes: AtomicU64,
    connections: AtomicU64,
    silent: AtomicBool,
    broken: Notify,
}

/// A proxy in front of a server, until the runtime of the test ends.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    /// A proxy on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn before(server: (String, u16)) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let Ok(upstream) = TcpStream::connect((server.0.as_str(), server.1)).await else {
                    continue;
                };
                let _no_delay = (client.set_nodelay(true), upstream.set_nodelay(true));
                tokio::spawn(relay(client, upstream, shared.clone()));
            }
        });
        Proxy { port, state }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Round trips so far, on all connections.
    pub fn turns(&self) -> u64 {
        self.state.turns.load(Ordering::SeqCst)
    }

    /// The round trips of one call.
    pub async fn trips(&self, call: impl Future) -> u64 {
        let before = self.turns();
        call.await;
        self.turns() - before
    }

    /// Bytes so far, in both directions.
    pub fn bytes(&self) -> u64 {
        self.state.bytes.load(Ordering::SeqCst)
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Lets nothing of the server through, while connections stay open; or again.
    pub fn be_silent(&self, silent: bool) {
        self.state.silent.store(silent, Ordering::SeqCst);
    }

    /// Breaks all connections off.
    pub fn break_off(&self) {
        self.state.broken.notify_waiters();
    }
}

async fn relay(client: TcpStream, upstream: TcpStream, state: Arc<State>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = upstream.into_split();
    // A connection begins with the client's turn; MySQL's server speaks first, which is no trip.
    let clients_turn = Arc::new(AtomicBool::new(false));
    tokio::select! {
        () = pump(from_client, to_server, &state, &clients_turn, true) => {}
        () = pump(from_server, to_client, &state, &clients_turn, false) => {}
        () = state.broken.notified() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
    clients_turn: &AtomicBool,
    is_client: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        state.bytes.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::SeqCst);
        if clients_turn.swap(is_client, Ordering::SeqCst) != is_client && is_client {
            state.turns.fetch_add(1, Ordering::SeqCst);
        }
        if !is_client && state.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
