//! The conformance suite passes on a right store, and says what is wrong with a broken one.

mod broken;

use std::sync::Arc;

use anarchon::backend::contract::Backend;
use anarchon::backends::memory::MemoryBackend;
use anarchon::clock::SystemClock;
use anarchon::testing::conformance::{
    CaseStatus, CheckOptions, Opening, Report, case_names, check_backend,
};
use anarchon_tests::page;
use anarchon_tests::tally::tally;
use broken::{Broken, Flaw};

async fn check(store: Arc<dyn Backend>, options: &CheckOptions) -> Report {
    let open = move || -> Opening {
        let client = store.clone();
        Box::pin(async move { Ok(client) })
    };
    check_backend(open, options).await
}

fn short() -> CheckOptions {
    CheckOptions { rounds: 4, histories: 4, complete: true, ..CheckOptions::default() }
}

#[tokio::test]
async fn the_memory_store_passes_every_case() {
    let store = Arc::new(MemoryBackend::new(Arc::new(SystemClock)));
    let options = CheckOptions { complete: true, histories: 40, ..CheckOptions::default() };
    let report = check(store, &options).await;
    tally("memory", &report);
    let passed =
        |case: &anarchon::testing::conformance::CaseResult| case.status == CaseStatus::Passed;
    assert!(report.cases.iter().all(passed), "{report}");
    assert_eq!(report.cases.len(), case_names().len() + 1);
}

#[tokio::test]
async fn the_memory_store_is_as_its_page_says() {
    let store = MemoryBackend::new(Arc::new(SystemClock));
    page::tells_the_truth("memory", &store).await;
}

#[tokio::test]
async fn the_pure_rules_in_another_store_pass_every_case() {
    let report = check(Broken::new(Flaw::Nothing), &short()).await;
    assert!(report.is_passed(), "{report}");
}

#[tokio::test]
async fn without_leases_the_cases_about_leases_are_skipped_with_the_reason() {
    let report = check(Broken::new(Flaw::NoLeases), &short()).await;
    assert!(report.is_passed(), "{report}");
    let text = report.to_string();
    assert!(text.contains("skipped rule 3"), "{text}");
    assert!(text.contains("the backend has no leases"), "{text}");
}

#[tokio::test]
async fn a_store_that_grows_is_told_but_only_held_against_our_own() {
    let lenient = CheckOptions { complete: false, ..short() };
    let report = check(Broken::new(Flaw::NeverTrims), &lenient).await;
    let trimming = report.cases.iter().find(|case| case.name.contains("an end to the rest"));
    let status = trimming.map(|case| &case.status);
    assert!(matches!(status, Some(CaseStatus::Skipped(why)) if why.contains("grows")), "{report}");
}

#[tokio::test]
async fn a_broken_store_fails_and_the_table_goes_on_to_its_end() {
    let options = CheckOptions { rounds: 2, histories: 1, ..short() };
    let flaws = [Flaw::IgnoresTheToken, Flaw::NeverReleases, Flaw::SurveyMissesSlots];
    for flaw in flaws {
        let report = check(Broken::new(flaw), &options).await;
        assert!(!report.is_passed(), "{flaw:?} passes:\n{report}");
        assert_eq!(report.cases.len(), case_names().len() + 1);
    }
}

/// Checks that the store fails a case with this in its name, and that the message says this.
async fn assert_found(flaw: Flaw, case: &str, says: &str) {
    let options = CheckOptions { only: vec![case.to_owned()], ..short() };
    let report = check(Broken::new(flaw), &options).await;
    let found = report.failed().into_iter().find(|failed| {
        matches!(&failed.status, CaseStatus::Failed(why)
            if failed.name.contains(case) && why.contains(says))
    });
    assert!(found.is_some(), "no case {case:?} failed with {says:?}:\n{report}");
}

macro_rules! flaws {
    ($($test:ident: $flaw:ident, $case:expr, $says:expr;)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                assert_found(Flaw::$flaw, $case, $says).await;
            }
        )*
    };
}

flaws! {
    a_check_and_a_write_apart_are_found:
        ChecksThenWrites, "the race: of several", "must be one step";
    leases_that_check_and_write_apart_are_found:
        ChecksThenWritesLeases, "leases, the race: exactly one", "one must win";
    a_token_that_is_ignored_is_found:
        IgnoresTheToken, "a different token loses", "granted again to a different token";
    a_repeat_that_is_refused_is_found:
        RefusesTheRepeat, "the winner's claim again", "would never know that it won";
    a_repeat_that_throws_is_found:
        ThrowsOnRepeat, "the winner's claim again", "violates unique constraint";
    a_slot_that_trimming_forgets_is_found:
        ForgetsAtTrim, "a slot never starts again", "must not forget";
    records_without_end_are_found:
        NeverTrims, "an end to the rest", "grows";
    a_slot_refused_for_a_later_one_is_found:
        RefusesOlderSlots, "a race of its own", "only other slots had been claimed";
    results_that_are_dropped_are_found:
        HistoryWithoutResults, "one record", "the saved result was `succeeded`";
    a_lost_output_is_found:
        LosesTheOutput, "comes back", "the output";
    oldest_first_is_found:
        OldestFirst, "newest first", "the newest slot comes first";
    a_limit_that_is_ignored_is_found:
        IgnoresTheLimit, "newest first", "limit 3";
    names_cut_to_64_bytes_are_found:
        SharesStateByPrefix, "different job names", "taken for another's";
    names_without_case_are_found:
        IgnoresCase, "different job names", "taken for another's";
    names_that_do_not_fit_are_found:
        LongJobNamesFail, "different job names", "value too long";
    a_lost_manual_flag_is_found:
        LosesTheManualFlag, "manual runs and scheduled runs", "`manual` [false, false]";
    a_takeover_of_a_live_lease_is_found:
        TakesOverALiveLease, "rule 3", "`kind` is \"won\", the rules say \"running\"";
    a_lease_that_never_ends_is_found:
        NeverTakesOver, "rule 4", "the rules say \"won\"";
    a_heartbeat_without_token_is_found:
        HeartbeatWithoutToken, "heartbeat: only with the token", "the store answered true";
    a_lease_that_moves_back_is_found:
        MovesTheLeaseBack, "heartbeat: only with the token", "the rules say \"running\"";
    a_heartbeat_after_a_release_is_found:
        HeartbeatAfterRelease, "heartbeat: only with the token", "the rules say false";
    a_finish_without_token_is_found:
        FinishWithoutToken, "finish: only with the token", "the rules say false";
    a_finish_that_cannot_be_repeated_is_found:
        FinishIsNotRepeatable, "finish: only with the token", "the rules say true";
    a_release_that_does_nothing_is_found:
        NeverReleases, "given back is taken over at once", "release must end the lease now";
    a_release_that_counts_as_a_crash_is_found:
        CountsReleasesAsCrashes, "given back is taken over at once", "without counting a crash";
    a_spent_lease_that_comes_back_is_found:
        RevivesSpentLeases, "rule 2: a lease that was given back", "the rules say \"running\"";
    a_repeat_that_does_not_renew_is_found:
        RepeatDoesNotRenew, "rule 2: the same claim", "the rules say \"running\"";
    a_takeover_on_the_old_lease_is_found:
        TakeoverKeepsTheOldLength, "rule 4: a run whose lease is over", "the rules say \"running\"";
    attempts_that_stand_still_are_found:
        AttemptsStandStill, "taken over by exactly one", "2 is right";
    fences_that_stand_still_are_found:
        FencesStandStill, "a fence of its own", "must have a greater one";
    an_overlap_that_is_ignored_is_found:
        IgnoresOverlap, "two slots that skip", "only one run of the job";
    a_skip_that_leaves_no_record_is_found:
        SkipsWithoutRecord, "rule 10", "skipped";
    a_policy_of_the_asker_is_found:
        AskersPolicyDecides, "rule 4", "the rules say \"won\"";
    a_pause_that_is_ignored_is_found:
        IgnoresPauses, "rule 8a", "the rules say \"paused\"";
    a_start_that_is_too_late_is_found:
        StartsTooLate, "rule 8:", "the rules say \"late\"";
    a_backup_that_starts_a_slot_is_found:
        BackupStarts, "rules 6 and 7", "the rules say \"none\"";
    a_survey_without_all_slots_is_found:
        SurveyMissesSlots, "active and survey", "`slots` is";
    a_lost_run_that_is_still_active_is_found:
        ActiveShowsLostRuns, "rule 4: a run is taken over as often", "`active` shows";
    silence_about_other_runs_is_found:
        SaysNothingOfOthers, "rule 2: the same claim", "`nextMs` is nothing";
}

#[tokio::test]
async fn a_random_history_that_fails_is_made_short() {
    let options = CheckOptions { only: vec!["random histories".to_owned()], ..short() };
    let report = check(Broken::new(Flaw::TakesOverALiveLease), &options).await;
    let failed = report.failed();
    let Some(CaseStatus::Failed(why)) = failed.first().map(|case| &case.status) else {
        panic!("no random history failed:\n{report}");
    };
    // The job is registered, somebody claims, and another claims as well: or one step more.
    let calls = why.lines().filter(|line| line.trim_start().starts_with(char::is_numeric)).count();
    assert!(calls <= 4, "{calls} calls:\n{why}");
}
