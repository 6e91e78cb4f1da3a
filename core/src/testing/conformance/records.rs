//! Cases for every backend: what history shows, what trimming leaves, and manual runs.

use crate::backend::contract::{ErrorInfo, RunRecord, StoredResult};
use crate::lease::model::Status;
use crate::testing::conformance::bed::{Bed, instance, result};
use crate::testing::conformance::{Case, CaseEnd, Halt, case, demand};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(false, "history: a claim and its saved result are one record", one_record),
        case!(false, "history: a claim without a result is shown, and has not ended", no_result),
        case!(false, "history: what the handler threw and returned comes back", bodies),
        case!(false, "history: a result saved twice is one record", saved_twice),
        case!(false, "history: newest first, and at most as many as asked for", newest_first),
        case!(false, "history: a job that never ran has none", never_ran),
        case!(false, "trimming: the newest records stay, and there is an end to the rest", trimmed),
        case!(false, "trimming: a slot never starts again, also when its record is gone", reopened),
        case!(false, "manual runs and scheduled runs of a slot are two runs", manual_apart),
        case!(false, "manual runs are not deduplicated", manual_again),
    ]
}

fn find(records: &[RunRecord], slot: i64, manual: bool) -> Option<&RunRecord> {
    records.iter().find(|record| record.slot == slot && record.manual == manual)
}

async fn won_slot(bed: &Bed, job: &str, slot: i64) -> CaseEnd {
    let won = bed.claim(&bed.input(job, slot, 0)).await?;
    demand(won, || format!("the first claim of slot {slot} was refused"))
}

async fn save(bed: &Bed, job: &str, result: &StoredResult) -> CaseEnd {
    Ok(bed.client().save_result(job, result, 100, None).await?)
}

async fn one_record(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    won_slot(&bed, &job, slot).await?;
    save(&bed, &job, &result(slot, false, &instance(0))).await?;
    let records = bed.history(&job).await?;
    demand(records.len() == 1, || {
        format!("one claim and its result came back as {} records", records.len())
    })?;
    let record = &records[0];
    demand(record.slot == slot && record.job == job, || {
        format!("slot {slot} of job {job:?} came back as {} of {:?}", record.slot, record.job)
    })?;
    demand(record.by == instance(0), || {
        format!("{:?} claimed the slot, the record says {:?}", instance(0), record.by)
    })?;
    demand(record.status == Status::Succeeded, || {
        format!("the saved result was `succeeded`, the record says `{}`", record.status)
    })?;
    demand(!record.manual, || "a scheduled run came back as a manual one".to_owned())?;
    demand(record.started_at == Some(slot + 10) && record.ended_at.is_some(), || {
        format!("the record says started {:?}, ended {:?}", record.started_at, record.ended_at)
    })
}

async fn no_result(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    won_slot(&bed, &job, slot).await?;
    let records = bed.history(&job).await?;
    let record = find(&records, slot, false);
    demand(records.len() == 1 && record.is_some(), || {
        format!("one claim without a result came back as {} records", records.len())
    })?;
    let open = [Status::Unfinished, Status::Running, Status::Stalled];
    demand(record.is_some_and(|record| open.contains(&record.status)), || {
        let status = record.map(|record| record.status.as_str());
        format!("a claim without a result is shown as {status:?}; `unfinished` is right")
    })
}

async fn bodies(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    won_slot(&bed, &job, slot).await?;
    let error = ErrorInfo {
        name: "TypeError".to_owned(),
        message: "it's \"broken\"; DROP TABLE \u{1f980}\n".to_owned(),
        stack: Some("at line 1\nat line 2".to_owned()),
    };
    let saved = StoredResult {
        status: Status::Failed,
        error: Some(error.clone()),
        output: Some("[1,2".to_owned()),
        output_truncated: Some(true),
        ..result(slot, false, &instance(0))
    };
    save(&bed, &job, &saved).await?;
    let records = bed.history(&job).await?;
    let record = find(&records, slot, false);
    demand(record.is_some_and(|record| record.status == Status::Failed), || {
        format!("a failed run came back as {:?}", record.map(|record| record.status))
    })?;
    let thrown = record.and_then(|record| record.error.as_ref());
    demand(thrown == Some(&error), || format!("the error {error:?} came back as {thrown:?}"))?;
    let output = record.and_then(|record| record.output.as_deref());
    demand(output == Some("[1,2"), || format!("the output \"[1,2\" came back as {output:?}"))?;
    let cut = record.and_then(|record| record.output_truncated);
    demand(cut == Some(true), || format!("outputTruncated came back as {cut:?}, true was saved"))
}

async fn saved_twice(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    won_slot(&bed, &job, slot).await?;
    for _ in 0..2 {
        save(&bed, &job, &result(slot, false, &instance(0))).await?;
    }
    let records = bed.history(&job).await?;
    demand(records.len() == 1, || {
        format!("a result that was sent twice came back as {} records", records.len())
    })
}

async fn newest_first(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 100_000;
    for step in [2, 0, 4, 1, 3] {
        won_slot(&bed, &job, base + step).await?;
        save(&bed, &job, &result(base + step, false, &instance(0))).await?;
    }
    let slots = |records: &[RunRecord]| -> Vec<i64> {
        records.iter().map(|record| record.slot - base).collect()
    };
    let all = slots(&bed.history(&job).await?);
    demand(all == [4, 3, 2, 1, 0], || {
        format!("five slots came back in the order {all:?}; the newest slot comes first")
    })?;
    let three = slots(&bed.client().history(&job, 3).await?);
    demand(three == [4, 3, 2], || {
        format!("history with limit 3 showed {three:?}, the newest three are [4, 3, 2]")
    })
}

async fn never_ran(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let records = bed.history(&job).await?;
    demand(records.is_empty(), || {
        format!("a job that never ran has {} records, of {:?}", records.len(), records[0].job)
    })
}

/// Runs 30 slots of a job that keeps 3 records.
async fn many_slots(bed: &Bed) -> Result<(String, i64), Halt> {
    let job = bed.job_keeping(3).await?;
    let base = bed.now().await? - 100_000;
    for step in 0..30 {
        let mut input = bed.input(&job, base + step, 0);
        input.history_size = 3;
        let won = bed.claim(&input).await?;
        demand(won, || format!("the first claim of slot {step} was refused"))?;
        let result = result(base + step, false, &instance(0));
        bed.client().save_result(&job, &result, 3, None).await?;
    }
    Ok((job, base))
}

async fn trimmed(bed: Bed) -> CaseEnd {
    let (job, base) = many_slots(&bed).await?;
    let records = bed.history(&job).await?;
    for step in 27..30 {
        demand(find(&records, base + step, false).is_some(), || {
            let slots: Vec<i64> = records.iter().map(|record| record.slot - base).collect();
            format!("of slots 0 to 29 the newest 3 are to be kept; kept are {slots:?}")
        })?;
    }
    if records.len() < 30 {
        return Ok(());
    }
    let what = "after 30 runs of a job that keeps 3 records all 30 are there: the store grows";
    if bed.options.complete {
        return Err(Halt::Failed(what.to_owned()));
    }
    Err(Halt::Skipped(format!("{what} (historySize is not looked at)")))
}

async fn reopened(bed: Bed) -> CaseEnd {
    let (job, base) = many_slots(&bed).await?;
    for step in 0..30 {
        let won = bed.client().claim(&bed.input(&job, base + step, 1)).await?;
        demand(!won, || {
            format!(
                "slot {step} of 30 had been run, the job keeps 3 records, and a new claim for it was \
                 granted: trimming must not forget that a slot was claimed"
            )
        })?;
    }
    Ok(())
}

async fn manual_apart(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    let input = bed.input(&job, slot, 1);
    let used = bed.client().record_manual_run(&input).await?.unwrap_or(slot);
    won_slot(&bed, &job, used).await.map_err(|_refused| {
        Halt::Failed("a manual run took the place of the scheduled run of its slot".to_owned())
    })?;
    let failed = StoredResult { status: Status::Failed, ..result(used, true, &instance(1)) };
    save(&bed, &job, &failed).await?;
    let records = bed.history(&job).await?;
    let (manual, scheduled) = (find(&records, used, true), find(&records, used, false));
    demand(records.len() == 2 && manual.is_some() && scheduled.is_some(), || {
        let shown: Vec<bool> = records.iter().map(|record| record.manual).collect();
        format!("a manual and a scheduled run of one slot came back with `manual` {shown:?}")
    })?;
    demand(manual.is_some_and(|record| record.status == Status::Failed), || {
        "the result of a manual run was not stored with the manual run".to_owned()
    })?;
    demand(scheduled.is_some_and(|record| record.status != Status::Failed), || {
        "the result of a manual run was stored with the scheduled run of its slot".to_owned()
    })
}

async fn manual_again(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    let mut used = Vec::new();
    for number in 0..3 {
        let asked = slot + i64::try_from(number).unwrap_or(0) * 100;
        let input = bed.input(&job, asked, number);
        used.push(bed.client().record_manual_run(&input).await?.unwrap_or(asked));
    }
    let again = bed.client().record_manual_run(&bed.input(&job, slot, 3)).await?;
    used.push(again.unwrap_or(slot));
    let records = bed.history(&job).await?;
    for slot in used {
        demand(find(&records, slot, true).is_some(), || {
            format!("a manual run was said to have slot {slot}, and history does not show it")
        })?;
    }
    Ok(())
}
