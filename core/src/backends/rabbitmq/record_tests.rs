use super::{Message, Told, records};
use crate::backend::contract::{ClaimRecord, JobLimits, StoredResult};
use crate::lease::model::Status;

fn message(told: Told, history_size: i64, history_ttl_ms: Option<i64>) -> Vec<u8> {
    Message { told, history_size, history_ttl_ms }.to_bytes()
}

fn claim(slot: i64) -> Told {
    Told::Claim(ClaimRecord { slot, by: "host".to_owned(), at: slot, manual: false })
}

fn ended(slot: i64) -> Told {
    Told::Result(StoredResult {
        slot,
        manual: false,
        by: "host".to_owned(),
        status: Status::Succeeded,
        started_at: slot,
        ended_at: slot + 1,
        attempt: None,
        error: None,
        output: None,
        output_truncated: None,
        abandoned: None,
    })
}

fn slots(messages: &[Vec<u8>], limit: usize, now: i64) -> Vec<i64> {
    records("job", messages, limit, now).iter().map(|record| record.slot).collect()
}

#[test]
fn a_message_has_the_words_of_the_contract() {
    let limits = JobLimits { name: "job".to_owned(), history_size: 3, ..JobLimits::default() };
    let text = String::from_utf8(Message::job(&limits).to_bytes()).expect("JSON is UTF-8");
    assert_eq!(text, r#"{"job":"job","historySize":3}"#);
    let text = String::from_utf8(message(claim(5), 3, Some(9))).expect("JSON is UTF-8");
    let expected = r#"{"claim":{"slot":5,"by":"host","at":5,"manual":false},"historySize":3,"historyTtlMs":9}"#;
    assert_eq!(text, expected);
}

#[test]
fn the_newest_limits_say_how_many_ended_records_are_shown_and_for_how_long() {
    let mut messages: Vec<Vec<u8>> = (1..=5)
        .flat_map(|slot| [message(claim(slot), 9, None), message(ended(slot), 9, None)])
        .collect();
    assert_eq!(slots(&messages, 100, 1_000), [5, 4, 3, 2, 1]);
    assert_eq!(slots(&messages, 2, 1_000), [5, 4]);
    messages.push(message(claim(6), 3, None));
    assert_eq!(slots(&messages, 100, 1_000), [6, 5, 4, 3], "an unfinished one does not count");
    messages.push(message(ended(6), 3, None));
    assert_eq!(slots(&messages, 100, 1_000), [6, 5, 4]);
    messages.push(message(Told::Job("job".to_owned()), 9, Some(1_000)));
    assert_eq!(slots(&messages, 100, 1_005), [6, 5], "the others ended a second ago or earlier");
}

#[test]
fn what_a_later_version_writes_is_left_out() {
    let stranger = br#"{"pause":{"since":3},"historySize":9}"#.to_vec();
    let claim = br#"{"claim":{"slot":7,"by":"h","at":7,"manual":false,"new":1},"historySize":9}"#;
    assert_eq!(slots(&[stranger, claim.to_vec(), b"nonsense".to_vec()], 100, 0), [7]);
}
