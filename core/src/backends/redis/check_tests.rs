use super::{Findings, Info, judge};
use crate::backends::redis::RedisOptions;

const SOUND: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\n\
                     maxmemory:0\r\nmaxmemory_policy:noeviction\r\n";

fn findings(options: &RedisOptions, from: &str, to: &str) -> Findings {
    assert!(SOUND.contains(from), "{from}");
    judge(options, &Info::parse(&SOUND.replace(from, to)))
}

#[test]
fn a_sound_server_is_taken_without_a_word() {
    assert_eq!(findings(&RedisOptions::new("h"), "", ""), Findings::default());
}

#[test]
fn a_limit_with_eviction_is_refused_and_without_a_limit_the_policy_does_not_matter() {
    let options = RedisOptions::new("h");
    let evicting = "maxmemory:104857600\r\nmaxmemory_policy:allkeys-lru";
    let limits = "maxmemory:0\r\nmaxmemory_policy:noeviction";
    let refusal = findings(&options, limits, evicting).refusal.expect("refused");
    assert!(refusal.contains("maxmemory-policy is allkeys-lru"), "{refusal}");
    let unlimited = findings(&options, "noeviction", "allkeys-lru");
    assert_eq!(unlimited, Findings::default());
    let full = findings(&options, "maxmemory:0", "maxmemory:104857600");
    assert_eq!(full, Findings::default());

    let told = RedisOptions { allow_eviction: true, ..options };
    let allowed = findings(&told, limits, evicting);
    assert_eq!((allowed.refusal, allowed.warnings.len()), (None, 1));
}

#[test]
fn an_old_server_and_the_wrong_kind_of_server_are_refused() {
    let options = RedisOptions::new("h");
    let refusal = |options: &RedisOptions, from: &str, to: &str| {
        findings(options, from, to).refusal.unwrap_or_default()
    };
    assert!(refusal(&options, "7.0.15", "4.0.14").contains("at least 5.0"));
    assert!(refusal(&options, "standalone", "cluster").contains("add cluster=true"));
    let cluster = RedisOptions { cluster: true, ..options };
    assert!(refusal(&cluster, "", "").contains("leave out cluster=true"));
    assert_eq!(refusal(&cluster, "standalone", "cluster"), "");
}
