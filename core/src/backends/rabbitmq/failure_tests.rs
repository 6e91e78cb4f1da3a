use lapin::ErrorKind;
use lapin::protocol::{AMQPError, AMQPHardError, AMQPSoftError};

use super::{differing_argument, is_not_found, told};
use crate::backends::rabbitmq::RabbitMqOptions;
use crate::error::Code;

fn soft(error: AMQPSoftError, text: &str) -> lapin::Error {
    ErrorKind::ProtocolError(AMQPError::new(error.into(), text.into())).into()
}

fn precondition(text: &str) -> lapin::Error {
    soft(AMQPSoftError::PRECONDITIONFAILED, &format!("PRECONDITION_FAILED - {text}"))
}

fn code(error: &lapin::Error) -> Option<Code> {
    told(&RabbitMqOptions::new("mq"), error).code()
}

#[test]
fn only_an_argument_that_differs_is_a_claim_that_somebody_else_has() {
    let taken = precondition(
        "inequivalent arg 'x-dead-letter-routing-key' for queue 'q' in vhost '/': received 'b' but \
         current is 'a'",
    );
    assert_eq!(differing_argument(&taken), Some("x-dead-letter-routing-key"));
    // What the server says is cut after 255 bytes.
    let cut =
        precondition(&format!("inequivalent arg 'x-expires' for queue '{}...", "q".repeat(190)));
    assert_eq!(differing_argument(&cut), Some("x-expires"));
    for other in [
        precondition("invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}"),
        precondition("cannot declare queue 'q': queue limit in vhost '/' (5) is reached"),
        soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - inequivalent arg 'x-expires'"),
        ErrorKind::MissingHeartbeatError.into(),
    ] {
        assert_eq!(differing_argument(&other), None, "{other}");
    }
}

#[test]
fn a_queue_whose_node_is_down_is_not_missing_but_unknown() {
    let missing = soft(AMQPSoftError::NOTFOUND, "NOT_FOUND - no queue 'q' in vhost '/'");
    assert!(is_not_found(&missing));
    let down = soft(
        AMQPSoftError::NOTFOUND,
        "NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or inaccessible",
    );
    assert!(!is_not_found(&down));
    assert_eq!(code(&down), Some(Code::BackendUnavailable));
}

#[test]
fn refusals_say_what_to_do_and_everything_else_is_unknown() {
    let hard = |error: AMQPHardError, text: &str| -> lapin::Error {
        ErrorKind::ProtocolError(AMQPError::new(error.into(), text.into())).into()
    };
    let refused = Some(Code::BackendRefused);
    assert_eq!(code(&precondition("queue limit in vhost '/' (5) is reached")), refused);
    assert_eq!(code(&hard(AMQPHardError::NOTALLOWED, "NOT_ALLOWED - vhost x not found")), refused);
    let lost = hard(AMQPHardError::CONNECTIONFORCED, "CONNECTION_FORCED - broker forced");
    assert_eq!(code(&lost), Some(Code::BackendUnavailable));
    assert_eq!(code(&ErrorKind::MissingHeartbeatError.into()), Some(Code::BackendUnavailable));
}

#[test]
fn users_that_the_server_names_are_not_shown() {
    let options = RabbitMqOptions { username: "nobody".to_owned(), ..RabbitMqOptions::new("mq") };
    let error = soft(
        AMQPSoftError::ACCESSREFUSED,
        "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'nobody'",
    );
    let error = told(&options, &error);
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(!error.message().contains("nobody"), "{error}");
    assert!(error.message().contains("amq.default"), "{error}");
}
