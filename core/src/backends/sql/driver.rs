//! What the drivers of the servers are told alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the connections of a store prepare statements: as its options say, until it turns out
/// not to work.
#[derive(Clone)]
pub(in crate::backends) struct Preparing(Arc<AtomicBool>);

impl Preparing {
    /// A cache for no statement at all means that none is prepared.
    pub(in crate::backends) fn with_cache(statements: usize) -> Preparing {
        Preparing(Arc::new(AtomicBool::new(statements > 0)))
    }

    /// Whether statements are to be prepared.
    pub(in crate::backends) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Nothing is prepared from now on. True for the first who says so, who tells the user.
    pub(in crate::backends) fn give_up(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Gives the options of a driver what the drivers of both servers call the same; they share no
/// trait. `$mode` is the driver's word for a mode, `$ssl_ca` its method for the authorities.
macro_rules! for_driver {
    ($options:expr, $server:expr, $mode:expr, $ssl_ca:ident) => {{
        let (mut options, server) = ($options, $server);
        if let Some(host) = &server.host {
            options = options.host(host);
        }
        if let Some(port) = server.port {
            options = options.port(port);
        }
        if let Some(socket) = &server.socket {
            options = options.socket(socket);
        }
        if let Some(user) = &server.user {
            options = options.username(user);
        }
        if let Some(password) = &server.password {
            options = options.password(password);
        }
        if let Some(database) = &server.database {
            options = options.database(database);
        }
        if let Some(mode) = server.ssl_mode {
            options = options.ssl_mode($mode(mode));
        }
        if let Some(file) = &server.ssl_ca {
            options = options.$ssl_ca(file);
        }
        if let Some(file) = &server.ssl_cert {
            options = options.ssl_client_cert(file);
        }
        if let Some(file) = &server.ssl_key {
            options = options.ssl_client_key(file);
        }
        options
    }};
}
pub(in crate::backends) use for_driver;
