//! What a user gave for an option of a store: read from text, and held to what is allowed. Every
//! error names the option, what was given, what is allowed.

use std::path::Path;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::host::names::nearest;

/// Refuses a namespace of other characters, or of too many.
pub(super) fn namespace(value: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    word("namespace", value, 64, "a-z, 0-9, _ and -", allowed)
}

/// Refuses a word of characters that are not allowed, or of too many.
pub(super) fn word(
    name: &str,
    value: &str,
    most: usize,
    says: &str,
    allowed: impl Fn(char) -> bool,
) -> Result<()> {
    if (1..=most).contains(&value.len()) && value.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::option(format!("the {name} is {value:?}; allowed are 1 to {most} of {says}")))
}

/// Refuses a number that is too small or too great.
pub(super) fn in_range(name: &str, value: i64, least: i64, most: i64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::option(format!("{name} is {value}; allowed is {least} to {most}")))
}

/// Reads a whole number.
pub(super) fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    let refused = || Error::option(format!("{name} is {value:?}; wanted is a whole number"));
    value.parse().map_err(|_| refused())
}

/// Reads true and false.
pub(super) fn truth(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Error::option(format!("{name} is {value:?}; allowed are true and false"))),
    }
}

/// A part of a URL without its escapes; `what` is shown if it cannot be read, and nothing of it.
pub(super) fn decoded(text: &str, what: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Error::option(format!("{what} is not UTF-8 behind its %-escapes")))
}

/// Sets the options in the query of a store's URL, each by its name and its value without escapes.
pub(super) fn set_all(
    query: &str,
    store: &str,
    mut set: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let what = format!("the option {name} of the {store} URL");
        set(name, &decoded(value, &what)?)?;
    }
    Ok(())
}

/// The refusal of an option that the URL of a store does not have.
#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "redis"))]
pub(super) fn unknown_option(store: &str, unknown: &str, options: &[&str]) -> Error {
    let near = match nearest(unknown, options) {
        near if near.is_empty() => ".".to_owned(),
        near => near,
    };
    let known = options.join(", ");
    Error::option(format!(
        "the {store} URL has an unknown option {unknown:?}{near} Allowed are {known}"
    ))
}

/// Refuses certificates without encryption, and one of our own without its key. `scheme` begins a
/// URL with encryption.
#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "redis"))]
pub(super) fn certificates(
    tls: bool,
    ca: Option<&Path>,
    cert: Option<&Path>,
    key: Option<&Path>,
    scheme: &str,
) -> Result<()> {
    if !tls && [ca, cert, key].iter().any(Option::is_some) {
        return Err(Error::option(format!(
            "tlsCa, tlsCert and tlsKey are for encrypted connections; write {scheme}://"
        )));
    }
    if cert.is_some() != key.is_some() {
        return Err(Error::option("tlsCert and tlsKey belong together; give both or none"));
    }
    Ok(())
}
