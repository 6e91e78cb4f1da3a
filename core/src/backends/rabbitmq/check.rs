//! Whether a server keeps what the store promises, before anything is claimed on it.
//!
//! What cannot be seen from here is said in the documentation: policies that let queues expire, and
//! how many nodes there are.

use super::claim::{self, Declared};
use super::link::Purpose;
use super::names;
use super::store::Shared;
use crate::error::{Code, Error, Result};
use crate::random::Random;

/// The form of what is stored. A greater major cannot be read.
const MAJOR: &str = "1";

/// How long a queue of ours lives that is used only to try the server out (ms).
const PROBE_MS: i64 = 60_000;

/// Checks that declaring a queue decides who was first, and that what is stored is of a form that
/// this version knows. A reader creates nothing.
///
/// # Errors
/// `BACKEND_REFUSED`, `SCHEMA_TOO_NEW`, `BACKEND_UNAVAILABLE`.
pub(super) async fn server(shared: &Shared, is_reader: bool) -> Result<()> {
    if is_reader {
        return reader(shared).await;
    }
    decides(shared).await?;
    schema(shared).await
}

async fn reader(shared: &Shared) -> Result<()> {
    let options = &shared.options;
    let queue = names::of_schema(&options.prefix);
    if shared.on(Purpose::Claims, |lane| claim::is_there(lane, &queue)).await? {
        return schema(shared).await;
    }
    Err(Error::new(
        Code::BackendRefused,
        format!(
            "there is nothing to read in RabbitMQ at {}, virtual host {:?}, under the prefix {:?}: \
             no scheduler has been started on it yet",
            options.address(),
            options.vhost,
            options.prefix
        ),
    ))
}

/// The version is the token of a queue that never expires.
async fn schema(shared: &Shared) -> Result<()> {
    let options = &shared.options;
    let queue = names::of_schema(&options.prefix);
    let declaring = shared.on(Purpose::Claims, |lane| claim::declare(lane, &queue, MAJOR, None));
    match declaring.await? {
        Declared::Ours => Ok(()),
        Declared::Theirs => Err(Error::new(
            Code::SchemaTooNew,
            format!(
                "what is stored in RabbitMQ at {} under the prefix {:?} is of a newer version; this \
                 version of anarchon knows {MAJOR}. Update it",
                options.address(),
                options.prefix
            ),
        )),
    }
}

/// Tries the one step that everything rests on, with a queue of its own.
async fn decides(shared: &Shared) -> Result<()> {
    let queue = names::of_probe(&shared.options.prefix, &Random::system().token());
    let mut answers = Vec::new();
    for token in ["first", "first", "second"] {
        let declaring =
            shared.on(Purpose::Claims, |lane| claim::declare(lane, &queue, token, Some(PROBE_MS)));
        answers.push(declaring.await?);
    }
    shared.on(Purpose::Claims, |lane| claim::delete(lane, &queue)).await?;
    if answers == [Declared::Ours, Declared::Ours, Declared::Theirs] {
        return Ok(());
    }
    Err(Error::new(
        Code::BackendRefused,
        format!(
            "the server at {} does not compare the arguments of a queue that is declared again, as \
             RabbitMQ does: it cannot tell who was first. Use RabbitMQ 3.9 or later, or another \
             store",
            shared.options.address()
        ),
    ))
}
