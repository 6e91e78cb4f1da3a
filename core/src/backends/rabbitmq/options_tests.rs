use super::RabbitMqOptions;
use crate::error::Code;

fn refused(url: &str) -> String {
    let error = RabbitMqOptions::from_url(url).expect_err(url);
    assert_eq!(error.code(), Some(Code::InvalidOption), "{url}");
    error.message().to_owned()
}

#[test]
fn a_url_says_where_the_server_is_and_who_asks() {
    let options = RabbitMqOptions::from_url("amqp://app:p%40ss@[::1]:7000/a%2Fb").expect("a URL");
    assert_eq!(options.host, "::1");
    assert_eq!((options.port, options.vhost.as_str(), options.tls), (7000, "a/b", false));
    assert_eq!((options.username.as_str(), options.password.as_str()), ("app", "p@ss"));
    let bare = RabbitMqOptions::from_url("amqps://mq").expect("a URL");
    assert_eq!((bare.host.as_str(), bare.port, bare.tls), ("mq", 5671, true));
    assert_eq!((bare.username.as_str(), bare.password.as_str()), ("guest", "guest"));
    for root in ["amqp://mq", "amqp://mq/", "amqp://mq/%2F", "amqp://mq?channels=2"] {
        assert_eq!(RabbitMqOptions::from_url(root).expect(root).vhost, "/", "{root}");
    }
}

#[test]
fn a_url_sets_the_options_of_its_query() {
    let url = "amqps://h?namespace=staging&prefix=App.1&dedupeWindowMs=60000&channels=4\
               &historyBytes=4194304&callTimeoutMs=900&tlsCa=%2Fca.pem&tlsCert=c&tlsKey=k";
    let options = RabbitMqOptions::from_url(url).expect("a URL");
    assert_eq!((options.namespace.as_str(), options.prefix.as_str()), ("staging", "App.1"));
    assert_eq!((options.dedupe_window_ms, options.channels), (60_000, 4));
    assert_eq!((options.history_bytes, options.call_timeout_ms), (4_194_304, 900));
    assert_eq!(options.tls_ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_known_one() {
    let message = refused("amqp://h?dedupe_window=1");
    assert!(message.contains("did you mean \"dedupeWindowMs\"?"), "{message}");
    let message = refused("amqp://h?colour=blue");
    assert!(message.contains("\"colour\". Allowed are namespace,"), "{message}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (url, says) in [
        ("redis://h", "allowed are amqp and amqps"),
        ("amqp://h?channels=0", "channels is 0; allowed is 1 to 256"),
        ("amqp://h?channels=many", "wanted is a whole number"),
        ("amqp://h?dedupeWindowMs=10", "dedupeWindowMs is 10; allowed is 1000 to 1209600000"),
        ("amqp://h?historyBytes=10", "historyBytes is 10; allowed is 1048576"),
        ("amqp://h?namespace=A", "the namespace is \"A\""),
        ("amqp://h?prefix=a*b", "the prefix is"),
        ("amqp://h?prefix=amq.x", "belong to RabbitMQ itself"),
        ("amqp://h?tlsCa=x", "write amqps://"),
        ("amqps://h?tlsCert=x", "belong together"),
        ("amqp://h?namespace=%FF", "is not UTF-8"),
    ] {
        let message = refused(url);
        assert!(message.contains(says), "{url}: {message}");
    }
}

#[test]
fn user_and_password_are_in_no_message_and_no_debug_text() {
    for url in [
        "amqp://nobody:hush-hush@h:99999",
        "amqp://nobody:hush-hush@h?nonsense=1",
        "amqp://nobody:hush-hush%FF@h",
        "amqp://nobody:hush-hush@h?channels=0",
    ] {
        let message = refused(url);
        assert!(!message.contains("hush") && !message.contains("nobody"), "{url}: {message}");
    }
    let options = RabbitMqOptions::from_url("amqp://nobody:hush-hush@h").expect("a URL");
    let text = format!("{options:?}");
    assert!(!text.contains("hush") && !text.contains("nobody"), "{text}");
}

#[test]
fn queues_outlive_the_window_by_what_clocks_may_differ() {
    let mut options = RabbitMqOptions::new("h");
    assert_eq!((options.dedupe_window_ms, options.expires_ms()), (3_600_000, 3_660_000));
    options.dedupe_window_ms = 5_000;
    assert_eq!(options.expires_ms(), 10_000);
}
