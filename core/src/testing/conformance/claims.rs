//! Cases for every backend: one winner per slot, safe to repeat, names apart.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::error::Result;
use crate::testing::conformance::bed::{Bed, instance, limits};
use crate::testing::conformance::{Case, CaseEnd, Halt, case, demand};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(false, "setting up can be repeated, and done by several at once", set_up),
        case!(false, "the race: of several clients that claim a slot exactly one wins", race),
        case!(false, "repeat safety: the winner's claim again is still granted", repeat),
        case!(false, "repeat safety: a different token loses", other_token),
        case!(false, "repeat safety: a claim sent twice at once is granted twice", twice_at_once),
        case!(false, "every slot is a race of its own", slots_apart),
        case!(false, "different job names never share a slot or a record", names_apart),
        case!(false, "slots are whole milliseconds of 64 bits", wide_slots),
        case!(false, "a slot that lies too far ahead is refused", too_far_ahead),
        case!(false, "the dedupe window is a time, or for ever", dedupe_window),
    ]
}

async fn set_up(bed: Bed) -> CaseEnd {
    let job = bed.new_name();
    let limits = limits(&job, 100);
    let all = bed.clients.iter().map(|client| async {
        client.init().await?;
        client.prepare_job(&limits).await?;
        client.prepare_job(&limits).await
    });
    join_all(all).await.into_iter().collect::<Result<Vec<()>>>()?;
    let several = [self::limits(&bed.new_name(), 10), self::limits(&bed.new_name(), 10)];
    let answers = bed.client().prepare_jobs(&several).await;
    demand(answers.len() == 2, || format!("2 jobs were registered, {} answered", answers.len()))?;
    answers.into_iter().collect::<Result<Vec<()>>>()?;
    let name = bed.client().name();
    demand(!name.is_empty(), || "the backend's `name` is empty".to_owned())
}

async fn race(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let slot = base + 1_000 * i64::try_from(round).unwrap_or(0);
        let claims: Vec<_> =
            (0..bed.clients.len()).map(|number| bed.input(&job, slot, number)).collect();
        let won = bed.race(&claims).await?.into_iter().filter(|won| *won).count();
        demand(won == 1, || {
            format!(
                "round {}: {} clients claimed the same slot at once with tokens of their own; {won} \
                 were told that they won, exactly one must be. The check and the write must be one \
                 step of the store",
                round + 1,
                claims.len()
            )
        })?;
    }
    Ok(())
}

async fn repeat(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    let input = bed.input(&job, slot, 0);
    demand(bed.claim(&input).await?, || "the first claim of a new slot was refused".to_owned())?;
    for number in 0..bed.clients.len() {
        let again = bed.client_of(number).claim(&input).await?;
        demand(again, || {
            "the winning claim sent again with the same token was refused: a client whose answer \
             got lost would never know that it won"
                .to_owned()
        })?;
    }
    Ok(())
}

async fn other_token(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    let input = bed.input(&job, slot, 0);
    demand(bed.claim(&input).await?, || "the first claim of a new slot was refused".to_owned())?;
    for number in 0..bed.clients.len() {
        let mut other = bed.input(&job, slot, number);
        // The token alone decides, also for the instance that won.
        other.instance_id = instance(0);
        let won = bed.client_of(number).claim(&other).await?;
        demand(!won, || {
            "a slot that had been won was granted again to a different token; compare the stored \
             token with the one that is sent"
                .to_owned()
        })?;
    }
    demand(bed.client().claim(&input).await?, || {
        "after a refused claim with a different token the winner's own token was refused".to_owned()
    })
}

async fn twice_at_once(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let input = bed.input(&job, base + i64::try_from(round).unwrap_or(0), 0);
        let answers = bed.race(&vec![input; bed.clients.len()]).await?;
        demand(answers.iter().all(|won| *won), || {
            format!(
                "the same claim with the same token, sent by several connections at once, was \
                     answered {answers:?}; each must be true"
            )
        })?;
    }
    Ok(())
}

async fn slots_apart(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    // Newest first: a slot must not be refused because a later one has been recorded.
    for step in (0..10).rev() {
        let input = bed.input(&job, base + step, 0);
        demand(bed.claim(&input).await?, || {
            "a new slot was refused although only other slots had been claimed".to_owned()
        })?;
    }
    Ok(())
}

/// Names that a careless key would mix up: upper and lower case, a trailing space, composed and
/// decomposed letters, separators, prefixes, and the longest that is allowed.
fn names(prefix: &str) -> Vec<String> {
    let long = |last: &str| {
        let fill = 255 - prefix.len() - last.len();
        format!("{prefix}{}{last}", "x".repeat(fill))
    };
    let mut names: Vec<String> = [
        "",
        "a",
        "A",
        "a ",
        "a:b",
        "a|b",
        "a/b",
        "a.b",
        "a:b:c",
        "a%b",
        "a_b",
        "a*",
        "a>",
        "\u{e9}",
        "e\u{301}",
        "\u{1f980}",
        "a'b",
        "a\"b",
        "a\\b",
        "a{b}",
        "1",
        "manual",
    ]
    .iter()
    .map(|rest| format!("{prefix}{rest}"))
    .collect();
    names.extend([long("1"), long("2"), format!("{prefix}{}", "y".repeat(64 - prefix.len()))]);
    names.push(format!("{prefix}{}", "y".repeat(65 - prefix.len())));
    names
}

async fn names_apart(bed: Bed) -> CaseEnd {
    let names = names(&bed.new_name());
    let slot = bed.now().await? - 5_000;
    for name in &names {
        bed.client().prepare_job(&limits(name, 100)).await?;
        let input = bed.input(name, slot, 0);
        demand(bed.claim(&input).await?, || {
            format!(
                "job {name:?} was refused a slot that only other jobs had claimed: its name is \
                 taken for another's"
            )
        })?;
    }
    for name in &names {
        let records = bed.history(name).await?;
        let jobs: BTreeSet<&str> = records.iter().map(|record| record.job.as_str()).collect();
        demand(records.len() == 1 && jobs.contains(name.as_str()), || {
            format!(
                "job {name:?} ran once, and its history shows {} records of {jobs:?}",
                records.len()
            )
        })?;
    }
    Ok(())
}

async fn wide_slots(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    // Beyond 32 bits of milliseconds, not a whole second, and two that a float of 32 bits mixes up.
    // No older than the store remembers: such slots it may refuse.
    let window = bed.client().dedupe_window_ms().unwrap_or(i64::MAX);
    let base = bed.now().await? - (window / 2).min(7_200_000);
    for slot in [base, base + 1, base + 2, base + 999, base + 1_000] {
        let input = bed.input(&job, slot, 0);
        demand(bed.claim(&input).await?, || {
            format!("slot {slot} was refused: it is taken for one a few milliseconds apart")
        })?;
    }
    let slots: Vec<i64> = bed.history(&job).await?.iter().map(|record| record.slot).collect();
    let expected = vec![base + 1_000, base + 999, base + 2, base + 1, base];
    demand(slots == expected, || format!("slots {expected:?} came back as {slots:?}"))
}

async fn too_far_ahead(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let mut input = bed.input(&job, bed.now().await? + 3_600_000, 0);
    input.max_early_ms = Some(2_000);
    if !bed.client().claim(&input).await? {
        return Ok(());
    }
    let what = "a slot an hour ahead was granted although maxEarlyMs is 2 s: one clock that runs \
                ahead can claim slots before their time";
    if bed.options.complete {
        return Err(Halt::Failed(what.to_owned()));
    }
    Err(Halt::Skipped(format!("{what} (a store without a clock of its own cannot tell)")))
}

async fn dedupe_window(bed: Bed) -> CaseEnd {
    let window = bed.client().dedupe_window_ms();
    demand(window.is_none_or(|window| window > 0), || {
        format!("dedupeWindowMs is {window:?}; give the time (ms) or Infinity")
    })
}
