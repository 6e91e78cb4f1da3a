//! Bug reports of the field, as tests: each name begins with the number of its case.

use serde_json::{Value, json};

use crate::backend::contract::RunRecord;
use crate::events::{Event, Trigger};
use crate::lease::model::Status;
use crate::scheduler::tests::{Fleet, every};
use crate::scheduler::{HistoryEntry, Scheduler, When};
use crate::testing::ManualClock;

/// An instant of 2026-03-01, by hour, minute and second (ms).
pub(super) fn at(hour: i64, minute: i64, second: i64) -> i64 {
    const MIDNIGHT: i64 = 1_772_323_200_000;
    MIDNIGHT + ((hour * 60 + minute) * 60 + second) * 1_000
}

fn fleet_at(start: i64, ids: &[&str]) -> Fleet {
    Fleet::with(ManualClock::new(start), ids)
}

pub(super) fn cron(expression: &str) -> When {
    When::Cron(expression.to_owned())
}

async fn records(scheduler: &Scheduler, name: &str) -> Vec<RunRecord> {
    let entries = scheduler.history(name, 1_000, false).await.expect("a history");
    let records = entries.into_iter().filter_map(|entry| match entry {
        HistoryEntry::Run(record) => Some(*record),
        HistoryEntry::Missed { .. } => None,
    });
    records.collect()
}

fn missed(fleet: &Fleet) -> Vec<(i64, i64, u64, String)> {
    let told = fleet.told.lock().unwrap();
    let ranges = told.iter().filter_map(|(_, event)| match event {
        Event::Missed(missed) => {
            let range = &missed.range;
            Some((range.from, range.to, range.count, range.reason.clone()))
        }
        _ => None,
    });
    ranges.collect()
}

#[tokio::test]
async fn k01_a_sleep_of_a_month_ends_once_and_at_its_time() {
    let fleet = fleet_at(1_767_225_600_001, &["A"]);
    fleet.job("monthly", cron("0 0 1 * *"), &json!({}));
    fleet.start().await;
    fleet.clock.advance(32 * 86_400_000).await;
    assert_eq!(fleet.slots(), [1_769_904_000_000]);
}

#[tokio::test]
async fn k02_a_clock_that_is_stepped_forward_and_back_repeats_nothing() {
    let fleet = fleet_at(at(15, 0, 30), &["A"]);
    fleet.job("tick", cron("* * * * *"), &json!({ "jitterMs": 0, "maxEarlyMs": 0 }));
    fleet.start().await;
    fleet.clock.advance(60_000).await;
    fleet.clock.step_wall(2 * 3_600_000 - 90_000);
    fleet.clock.advance(90_000).await;
    fleet.clock.step_wall(-(2 * 3_600_000 - 30_000));
    fleet.clock.advance(180_000).await;
    let slots = fleet.slots();
    let mut once = slots.clone();
    once.dedup();
    assert_eq!(slots, once, "no slot twice");
    assert!(slots.contains(&at(17, 0, 0)), "{slots:?}");
    assert!(slots.contains(&at(15, 4, 0)), "the clock's way back is gone honestly: {slots:?}");
}

/// Suspended from 22:00:30 to 08:00:30: what is run on waking.
async fn after_a_night(options: &Value) -> Vec<i64> {
    let fleet = fleet_at(at(22, 0, 20), &["A"]);
    fleet.job("tick", cron("* * * * *"), options);
    fleet.start().await;
    fleet.clock.advance(10_000).await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(10 * 3_600_000).await;
    fleet.ran.lock().unwrap().clear();
    fleet.start().await;
    fleet.clock.advance(20_000).await;
    fleet.slots()
}

#[tokio::test]
async fn k04_without_catch_up_only_the_slot_still_in_time_runs() {
    assert_eq!(after_a_night(&json!({ "catchUp": "none" })).await, [at(32, 0, 0)]);
}

#[tokio::test]
async fn k04_latest_makes_up_for_one_slot() {
    assert_eq!(after_a_night(&json!({ "catchUp": "latest" })).await, [at(32, 0, 0)]);
}

#[tokio::test]
async fn k04_all_makes_up_for_as_many_as_its_limit_one_after_another() {
    let slots = after_a_night(&json!({ "catchUp": "all", "catchUpLimit": 10 })).await;
    let expected: Vec<i64> = (0..10).map(|minute| at(31, 51 + minute, 0)).collect();
    assert_eq!(slots, expected);
}

#[tokio::test]
async fn k06_the_next_slot_lies_strictly_after_the_one_just_run() {
    let fleet = fleet_at(at(12, 0, 2), &["A"]);
    fleet.job("tick", cron("*/5 * * * * *"), &json!({ "seconds": true, "jitterMs": 0 }));
    fleet.start().await;
    fleet.clock.advance(10_000).await;
    assert_eq!(fleet.slots(), [at(12, 0, 0), at(12, 0, 5), at(12, 0, 10)][1..]);
}

#[tokio::test]
async fn k12_a_late_awakening_runs_the_slot_with_its_own_time() {
    let fleet = fleet_at(at(8, 59, 0), &["A"]);
    fleet.job("daily", cron("0 9 * * *"), &json!({}));
    fleet.start().await;
    fleet.clock.step_wall(63_000);
    fleet.clock.advance(1_000_000).await;
    assert_eq!(fleet.slots(), [at(9, 0, 0)]);
}

#[tokio::test]
async fn r01_a_won_slot_is_never_given_back_so_slow_clocks_lose_it() {
    let fleet = fleet_at(at(9, 59, 30), &["A", "B", "C"]);
    fleet.job("tick", cron("* * * * *"), &json!({}));
    fleet.start().await;
    fleet.clock.advance(600_000).await;
    assert_eq!(fleet.slots().len(), 10);
    assert_eq!(fleet.events("won"), 10);
}

#[tokio::test]
async fn l04_slots_behind_a_dead_holder_are_skipped_until_it_is_taken_over_and_then_run() {
    let fleet = fleet_at(at(9, 59, 50), &["A", "B"]);
    for (index, scheduler) in fleet.schedulers.iter().enumerate() {
        let takes = if index == 0 { 3_600_000 } else { 1_000 };
        let options = json!({ "overlap": "skip", "leaseMs": 30_000, "jitterMs": 0 });
        fleet.job_on(scheduler, "tick", cron("*/5 * * * *"), &options, takes);
    }
    fleet.schedulers[0].start(true).await.unwrap();
    fleet.clock.advance(20_000).await;
    fleet.schedulers[1].start(true).await.unwrap();
    fleet.schedulers[0].abort();
    fleet.clock.advance(400_000).await;
    let ran = fleet.ran.lock().unwrap().clone();
    let of_b: Vec<_> = ran.iter().filter(|(_, by, _)| by == "B").collect();
    assert_eq!((of_b[0].0, of_b[0].2), (at(10, 0, 0), Trigger::Takeover), "{ran:?}");
    assert_eq!((of_b[1].0, of_b[1].2), (at(10, 5, 0), Trigger::Slot), "{ran:?}");
}

#[tokio::test]
async fn l05_a_long_run_is_never_doubled_and_the_slots_behind_it_are_skipped() {
    let fleet = fleet_at(at(9, 59, 50), &["A", "B", "C"]);
    for scheduler in &fleet.schedulers {
        let options = json!({ "overlap": "skip", "leaseMs": 60_000, "jitterMs": 0 });
        fleet.job_on(scheduler, "long", cron("* * * * *"), &options, 590_000);
    }
    fleet.start().await;
    fleet.clock.advance(15 * 60_000).await;
    assert_eq!(fleet.slots(), [at(10, 0, 0), at(10, 10, 0)]);
    let skipped = records(&fleet.schedulers[0], "long").await;
    let skipped = skipped.iter().filter(|record| record.status == Status::Skipped).count();
    assert_eq!(skipped, 9 + 4);
}

#[tokio::test]
async fn l07_a_thousand_failures_do_not_keep_the_next_slot_from_running() {
    let fleet = fleet_at(at(0, 0, 0) + 500, &["A"]);
    let failing = |_context| async {
        let error = crate::error::Error::option("always");
        crate::scheduler::HandlerEnd::Threw(error)
    };
    let job = crate::scheduler::JobDefinition {
        name: "failing".to_owned(),
        when: every("1s"),
        options: crate::scheduler::JobOptions::default(),
        handler: std::sync::Arc::new(failing),
    };
    fleet.schedulers[0].add(job).unwrap();
    fleet.start().await;
    fleet.clock.advance(1_001_000).await;
    assert_eq!(fleet.events("finished"), 1_001);
    assert_eq!(fleet.events("overlap"), 0);
}

#[tokio::test]
async fn m01_a_long_pause_is_reported_and_not_made_up_for() {
    let fleet = fleet_at(at(8, 28, 30), &["A"]);
    fleet.job("tick", cron("* * * * *"), &json!({ "jitterMs": 0 }));
    fleet.start().await;
    fleet.schedulers[0].pause("tick", Some("maintenance".to_owned())).await.unwrap();
    fleet.clock.advance(112 * 60_000 + 40_000).await;
    fleet.schedulers[0].resume("tick").await.unwrap();
    fleet.clock.advance(60_000).await;
    assert_eq!(fleet.slots(), [at(10, 22, 0)]);
    let paused: u64 = missed(&fleet).iter().filter(|m| m.3 == "paused").map(|m| m.2).sum();
    assert_eq!(paused, 113);
    assert_eq!(
        missed(&fleet).iter().filter(|m| m.3 != "paused").count(),
        0,
        "{:?}",
        missed(&fleet)
    );
}

#[tokio::test]
async fn m01_any_number_of_missed_slots_is_handled() {
    let fleet = fleet_at(at(8, 28, 30), &["A"]);
    fleet.job("tick", cron("* * * * *"), &json!({ "catchUp": "none" }));
    fleet.start().await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(112 * 60_000 + 40_000).await;
    fleet.ran.lock().unwrap().clear();
    fleet.start().await;
    fleet.clock.advance(60_000).await;
    assert_eq!(fleet.slots(), [at(10, 21, 0), at(10, 22, 0)]);
    let told: u64 = missed(&fleet).iter().map(|m| m.2).sum();
    assert_eq!(told, 112, "{:?}", missed(&fleet));
}

#[tokio::test]
async fn m02_a_slot_that_falls_into_a_restart_runs_late() {
    let fleet = fleet_at(at(9, 59, 50), &["A", "B"]);
    fleet.job("daily", cron("0 10 * * *"), &json!({}));
    fleet.schedulers[0].start(true).await.unwrap();
    fleet.clock.advance(7_400).await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(3_300).await;
    fleet.schedulers[1].start(true).await.unwrap();
    fleet.clock.advance(1_000).await;
    let ran = fleet.ran.lock().unwrap().clone();
    assert_eq!(ran, [(at(10, 0, 0), "B".to_owned(), Trigger::Slot)]);
}

#[tokio::test]
async fn m04_a_week_of_silence_costs_one_run_and_one_range() {
    let fleet = fleet_at(at(0, 0, 1), &["A"]);
    let options =
        json!({ "catchUp": "latest", "catchUpWindowMs": "7d", "jitterMs": 0, "maxLateMs": "10s" });
    fleet.job("quarterly", every("15m"), &options);
    fleet.start().await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(7 * 86_400_000 + 60_000).await;
    fleet.start().await;
    fleet.clock.advance(10_000).await;
    assert_eq!(fleet.slots(), [at(7 * 24, 0, 0)]);
    let ranges = missed(&fleet);
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    assert_eq!(ranges[0].2, 671);
}

#[tokio::test]
async fn m06_a_new_job_makes_up_for_nothing_before_its_registration() {
    let fleet = fleet_at(at(0, 0, 1), &["A", "B", "C"]);
    fleet.job("weekly", cron("45 14 * * 2"), &json!({ "catchUp": "latest" }));
    fleet.start().await;
    // 2026-03-01 is a Sunday: the next Tuesday is the 3rd.
    fleet.clock.advance(2 * 86_400_000).await;
    assert!(fleet.slots().is_empty());
    fleet.clock.advance(86_400_000).await;
    assert_eq!(fleet.slots(), [at(2 * 24 + 14, 45, 0)]);
    assert_eq!(fleet.events("missed"), 0);
}

#[tokio::test]
async fn h01_a_stop_waits_for_its_handler_and_keeps_the_lease() {
    let fleet = fleet_at(at(9, 59, 59), &["A", "B"]);
    for scheduler in &fleet.schedulers {
        let options = json!({ "leaseMs": 20_000, "jitterMs": 0 });
        fleet.job_on(scheduler, "long", every("1h"), &options, 60_000);
    }
    fleet.start().await;
    fleet.clock.advance(2_000).await;
    let holder = fleet.ran.lock().unwrap()[0].1.clone();
    let stopping = fleet.schedulers[usize::from(holder == "B")].clone();
    let stop = tokio::spawn(async move { stopping.stop(Some(90_000)).await });
    fleet.clock.settle().await;
    fleet.clock.advance(90_000).await;
    let report = stop.await.unwrap().unwrap();
    assert_eq!((report.finished.len(), report.released.len()), (1, 0), "{report:?}");
    assert_eq!(fleet.slots().len(), 1, "one run");
}

#[tokio::test]
async fn h02_after_the_grace_the_run_is_handed_over_at_once() {
    let fleet = fleet_at(at(9, 59, 59), &["A", "B"]);
    for scheduler in &fleet.schedulers {
        fleet.job_on(scheduler, "long", every("1h"), &json!({ "jitterMs": 0 }), 120_000);
    }
    fleet.start().await;
    fleet.clock.advance(2_000).await;
    let holder = fleet.ran.lock().unwrap()[0].1.clone();
    let stopping = fleet.schedulers[usize::from(holder == "B")].clone();
    let stop = tokio::spawn(async move { stopping.stop(Some(30_000)).await });
    fleet.clock.settle().await;
    fleet.clock.advance(31_000).await;
    assert_eq!(stop.await.unwrap().unwrap().released.len(), 1);
    let ran = fleet.ran.lock().unwrap().clone();
    assert_eq!(ran.len(), 2, "{ran:?}");
    fleet.clock.advance(120_000).await;
    let record = &records(&fleet.schedulers[0], "long").await[0];
    assert_eq!((record.status, record.attempt), (Status::Succeeded, Some(2)));
}

#[tokio::test]
async fn x01_a_job_that_fails_each_time_does_not_disturb_the_other() {
    let fleet = fleet_at(at(0, 0, 0) + 500, &["A"]);
    let failing = |_context| async {
        crate::scheduler::HandlerEnd::Threw(crate::error::Error::option("always"))
    };
    fleet.schedulers[0]
        .add(crate::scheduler::JobDefinition {
            name: "failing".to_owned(),
            when: every("1s"),
            options: crate::scheduler::JobOptions::default(),
            handler: std::sync::Arc::new(failing),
        })
        .unwrap();
    fleet.job("good", every("1s"), &json!({}));
    fleet.start().await;
    fleet.clock.advance(10_400).await;
    let failed = records(&fleet.schedulers[0], "failing").await;
    let good = records(&fleet.schedulers[0], "good").await;
    assert_eq!((failed.len(), good.len()), (10, 10));
    assert!(failed.iter().all(|record| record.status == Status::Failed));
    assert!(good.iter().all(|record| record.status == Status::Succeeded));
}

#[tokio::test]
async fn x03_ten_thousand_jobs_due_at_one_instant_run_once_each_on_three_replicas() {
    let fleet = fleet_at(at(23, 0, 30), &["A", "B", "C"]);
    for number in 0..10_000 {
        fleet.job(&format!("job {number}"), cron("1 23 * * *"), &json!({}));
    }
    fleet.start().await;
    fleet.clock.advance(60_000).await;
    assert_eq!(fleet.slots().len(), 10_000);
    assert_eq!(fleet.events("won"), 10_000);
}

#[tokio::test]
async fn d02_after_a_change_of_schedule_the_old_slots_are_nobodys() {
    let fleet = fleet_at(at(10, 0, 30), &["old", "new"]);
    fleet.job_on(&fleet.schedulers[0], "tick", cron("25 * * * *"), &json!({}), 0);
    fleet.job_on(&fleet.schedulers[1], "tick", cron("*/15 * * * *"), &json!({}), 0);
    fleet.schedulers[0].start(true).await.unwrap();
    fleet.clock.advance(60_000).await;
    fleet.schedulers[1].start(true).await.unwrap();
    fleet.clock.advance(5 * 60_000).await;
    fleet.schedulers[0].stop(None).await.unwrap();
    fleet.clock.advance(60 * 60_000).await;
    assert_eq!(fleet.slots(), [at(10, 15, 0), at(10, 30, 0), at(10, 45, 0), at(11, 0, 0)]);
}
