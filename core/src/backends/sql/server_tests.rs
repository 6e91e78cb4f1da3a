//! URLs and options of database servers.

use std::path::PathBuf;

use super::{ServerOptions, SslMode, read_url, unknown_option};
use crate::error::Code;

const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

fn read(url: &str) -> (ServerOptions, Vec<(String, String)>) {
    read_url(url, &SCHEMES).expect("the URL can be read")
}

#[test]
fn a_url_has_all_parts_or_few() {
    let (options, pairs) = read("postgres://me:p%40ss@db.example:6432/jobs?pool=3&sslMode=require");
    assert_eq!(options.user.as_deref(), Some("me"));
    assert_eq!(options.password.as_deref(), Some("p@ss"));
    assert_eq!((options.host.as_deref(), options.port), (Some("db.example"), Some(6432)));
    assert_eq!(options.database.as_deref(), Some("jobs"));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(pairs, [pair("pool", "3"), pair("sslMode", "require")]);
    let (options, pairs) = read("postgresql://localhost");
    assert_eq!((options.host.as_deref(), options.port), (Some("localhost"), None));
    assert_eq!((options.user, options.password, options.database), (None, None, None));
    assert!(pairs.is_empty());
    let (options, _) = read("postgres:///jobs");
    assert_eq!((options.host, options.database.as_deref()), (None, Some("jobs")));
}

#[test]
fn addresses_of_ipv6_and_sockets_are_read() {
    let (options, _) = read("postgres://me@[::1]:5433/jobs");
    assert_eq!((options.host.as_deref(), options.port), (Some("::1"), Some(5433)));
    let (options, _) = read("postgres://%2Fvar%2Frun%2Fpostgresql/jobs");
    assert_eq!(options.socket, Some(PathBuf::from("/var/run/postgresql")));
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_its_user_info() {
    for url in ["postgres:me:hidden@db", "mysql://me:hidden@db", "postgres://me:hidden@db:port/x"] {
        let error = read_url(url, &SCHEMES).expect_err("cannot be read");
        assert_eq!(error.code(), Some(Code::InvalidOption));
        assert!(!error.message().contains("hidden"), "{error}");
        assert!(error.message().contains("postgres://user:password@host:port/database"), "{error}");
    }
}

#[test]
fn options_have_the_names_of_ours_and_of_the_databases_clients() {
    let mut options = ServerOptions::default();
    for (name, value) in [
        ("create_tables", "false"),
        ("statementCache", "0"),
        ("sslmode", "verify-full"),
        ("sslrootcert", "/ca.pem"),
        ("ssl-cert", "/cert.pem"),
        ("sslKey", "/key.pem"),
        ("callTimeoutMs", "700"),
    ] {
        assert!(options.set(name, value).expect("allowed"), "{name}");
    }
    assert!(!options.create_tables);
    assert_eq!((options.statement_cache, options.call_timeout_ms), (0, 700));
    assert_eq!(options.ssl_mode, Some(SslMode::VerifyFull));
    assert_eq!(options.ssl_ca, Some(PathBuf::from("/ca.pem")));
    assert_eq!(options.ssl_key, Some(PathBuf::from("/key.pem")));
    options.check().expect("allowed together");
    assert!(!options.set("colour", "red").expect("is not known"));
    assert_eq!(SslMode::parse("VERIFY_IDENTITY").expect("MySQL's word"), SslMode::VerifyFull);
}

#[test]
fn values_that_are_not_allowed_say_what_is() {
    let refused = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = ServerOptions::default();
        change(&mut options);
        options.check().expect_err("not allowed").message().to_owned()
    };
    assert!(refused(&|o| o.pool = 0).contains("pool is 0; allowed is 1 to 1000"));
    assert!(refused(&|o| o.namespace = "A".to_owned()).contains("1 to 64 of a-z, 0-9, _ and -"));
    assert!(refused(&|o| o.table = "x; drop".to_owned()).contains("a-z, 0-9 and _"));
    assert!(refused(&|o| o.table = "1x".to_owned()).contains("digit must not be first"));
    assert!(refused(&|o| o.host = Some("a,b".to_owned())).contains("one name or address"));
    assert!(refused(&|o| o.ssl_key = Some(PathBuf::from("k"))).contains("needs both"));
    let error = ServerOptions::default().set("sslMode", "maybe").expect_err("not allowed");
    assert!(error.message().contains("verify-full"), "{error}");
    let error = unknown_option("PostgreSQL", "creatTables", &["schema"]);
    assert!(error.message().contains("did you mean \"createTables\"?"), "{error}");
}

#[test]
fn neither_user_nor_password_is_ever_shown() {
    let (options, _) = read("postgres://alice:hidden@db.example/jobs");
    let shown = format!("{options:?}");
    assert!(!shown.contains("alice") && !shown.contains("hidden"), "{shown}");
    assert!(shown.contains("db.example/jobs"), "{shown}");
    let said = options.without_user("password authentication failed for user \"alice\"");
    assert_eq!(said, "password authentication failed for user \"***\"");
    assert_eq!(options.without_user("denied to 'alice'@'host'"), "denied to '***'@'host'");
}
