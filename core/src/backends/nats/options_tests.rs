use super::NatsOptions;
use crate::error::Code;

fn refused(url: &str) -> String {
    let error = NatsOptions::from_url(url).expect_err(url);
    assert_eq!(error.code(), Some(Code::InvalidOption), "{url}");
    error.message().to_owned()
}

#[test]
fn a_url_says_where_the_servers_are_and_who_asks() {
    let options = NatsOptions::from_url("nats://app:p%40ss@n1,[::1]:7000,n3:1").expect("a URL");
    assert_eq!(options.servers, ["n1:4222", "[::1]:7000", "n3:1"]);
    assert_eq!(
        (options.username.as_deref(), options.password.as_deref()),
        (Some("app"), Some("p@ss"))
    );
    let bare = NatsOptions::from_url("tls://bus").expect("a URL");
    assert_eq!((bare.servers, bare.tls, bare.token), (vec!["bus:4222".to_owned()], true, None));
    let ours = NatsOptions::from_url("nats+tls://s3cret@[::1]/").expect("a URL");
    assert_eq!((ours.servers, ours.tls), (vec!["[::1]:4222".to_owned()], true));
    assert_eq!(ours.token.as_deref(), Some("s3cret"));
}

#[test]
fn a_url_sets_the_options_of_its_query() {
    let url = "tls://h?namespace=staging&prefix=App_1&replicas=5&credentialsFile=%2Fa.creds\
               &tlsCa=%2Fca.pem&tlsCert=c&tlsKey=k&domain=hub&callTimeoutMs=900&allowMemory=1";
    let options = NatsOptions::from_url(url).expect("a URL");
    assert_eq!((options.namespace.as_str(), options.prefix.as_str()), ("staging", "App_1"));
    assert_eq!((options.replicas, options.domain.as_deref()), (Some(5), Some("hub")));
    assert_eq!(options.credentials_file.as_deref(), Some(std::path::Path::new("/a.creds")));
    assert_eq!(options.tls_ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
    assert_eq!((options.call_timeout_ms, options.allow_memory), (900, true));
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_known_one() {
    let message = refused("nats://h?replica=3");
    assert!(message.contains("did you mean \"replicas\"?"), "{message}");
    let message = refused("nats://h?colour=blue");
    assert!(message.contains("\"colour\". Allowed are namespace,"), "{message}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (url, says) in [
        ("redis://h", "allowed are nats, nats+tls and tls"),
        ("nats:h", "cannot be read"),
        ("nats://h/stream", "streams are named by prefix="),
        ("nats://h:x", "a NATS server is \"h:x\""),
        ("nats://h:1,,g:2", "a NATS server is \"\""),
        ("nats://[::1", "an IPv6 address in brackets"),
        ("nats://h:0", "wanted is host or host:port"),
        ("nats://h?namespace=A", "the namespace is \"A\""),
        ("nats://h?prefix=a.b", "the prefix is \"a.b\""),
        ("nats://h?replicas=2", "replicas is 2; allowed are 1, 3 and 5"),
        ("nats://h?allowMemory=yes", "allowed are true and false"),
        ("nats://h?callTimeoutMs=0", "callTimeoutMs is 0; allowed is 1 to 600000"),
        ("nats://h?tlsCa=x", "write nats+tls://"),
        ("tls://h?tlsCert=x", "belong together"),
        ("nats://a:b@h?nkeyFile=x", "allowed is one of"),
    ] {
        let message = refused(url);
        assert!(message.contains(says), "{url}: {message}");
    }
}

#[test]
fn the_password_and_the_token_are_in_no_message_and_no_debug_text() {
    for url in [
        "nats://app:hush-hush@h:99999",
        "nats://app:hush-hush@h/x",
        "nats://app:hush-hush@h?nonsense=1",
        "nats://app:hush-hush%FF@h",
        "nats://app:hush-hush?x@h",
        "nats://app:hush-hush/x@h",
        "nats://hush-hush@h?nkeyFile=x",
        "nats://hush-hush%FF@h",
    ] {
        assert!(!refused(url).contains("hush"), "{url}");
    }
    for url in ["nats://app:hush-hush@h", "nats://hush-hush@h"] {
        let options = NatsOptions::from_url(url).expect("a URL");
        assert!(!format!("{options:?}").contains("hush"));
    }
}
