use super::RedisOptions;
use crate::error::Code;

fn refused(url: &str) -> String {
    let error = RedisOptions::from_url(url).expect_err(url);
    assert_eq!(error.code(), Some(Code::InvalidOption), "{url}");
    error.message().to_owned()
}

#[test]
fn a_url_says_where_the_server_is_and_who_asks() {
    let options = RedisOptions::from_url("redis://app:p%40ss@[::1]:7000/3").expect("a URL");
    assert_eq!(options.host, "::1");
    assert_eq!((options.port, options.db, options.tls), (7000, 3, false));
    assert_eq!(options.username.as_deref(), Some("app"));
    assert_eq!(options.password.as_deref(), Some("p@ss"));
    let bare = RedisOptions::from_url("valkeys://cache").expect("a URL");
    assert_eq!((bare.host.as_str(), bare.port, bare.tls), ("cache", 6379, true));
    assert_eq!((bare.username, bare.password), (None, None));
}

#[test]
fn a_url_sets_the_options_of_its_query() {
    let url = "rediss://h?namespace=staging&prefix=App.1&pool=4&cluster=true&nodes=a:1,[::2]:2\
               &tlsCa=%2Fca.pem&tlsCert=c&tlsKey=k&waitReplicas=2&waitTimeoutMs=300\
               &callTimeoutMs=900&allowEviction=1";
    let options = RedisOptions::from_url(url).expect("a URL");
    assert_eq!((options.namespace.as_str(), options.prefix.as_str()), ("staging", "App.1"));
    assert_eq!((options.pool, options.cluster, options.nodes.len()), (4, true, 2));
    assert_eq!(options.tls_ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
    assert_eq!((options.wait_replicas, options.wait_timeout_ms), (2, 300));
    assert_eq!((options.call_timeout_ms, options.allow_eviction), (900, true));
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_known_one() {
    let message = refused("redis://h?wait_replica=1");
    assert!(message.contains("did you mean \"waitReplicas\"?"), "{message}");
    let message = refused("redis://h?colour=blue");
    assert!(message.contains("\"colour\". Allowed are namespace,"), "{message}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (url, says) in [
        ("postgres://h", "allowed are redis"),
        ("redis://h/x", "the database of the Redis URL is \"x\""),
        ("redis://h?pool=0", "pool is 0; allowed is 1 to 64"),
        ("redis://h?namespace=A", "the namespace is \"A\""),
        ("redis://h?prefix=a{b", "the prefix is"),
        ("redis://h?cluster=yes", "allowed are true and false"),
        ("redis://h/1?cluster=true", "the database is 1; allowed is 0 to 0"),
        ("redis://h?nodes=a:1", "add cluster=true"),
        ("redis://h?cluster=true&nodes=a", "wanted are host:port"),
        ("redis://h?tlsCa=x", "write rediss://"),
        ("rediss://h?tlsCert=x", "belong together"),
        ("redis://h?waitReplicas=1&waitTimeoutMs=5000", "below callTimeoutMs"),
    ] {
        let message = refused(url);
        assert!(message.contains(says), "{url}: {message}");
    }
}

#[test]
fn the_password_is_in_no_message_and_no_debug_text() {
    for url in [
        "redis://app:hush-hush@h:99999",
        "redis://app:hush-hush@h/x",
        "redis://app:hush-hush@h?nonsense=1",
        "redis://app:hush-hush%FF@h",
    ] {
        assert!(!refused(url).contains("hush"), "{url}");
    }
    let options = RedisOptions::from_url("redis://app:hush-hush@h").expect("a URL");
    assert!(!format!("{options:?}").contains("hush"));
}
