//! Several at once, on any store with leases: one winner each time.

use std::collections::HashMap;
use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use futures_util::future::join_all;

use crate::inputs::{claim, input, limits};

/// Clients of one store, as different processes have them.
pub type Clients = Vec<Arc<dyn Backend>>;

fn runs(client: &Arc<dyn Backend>) -> &dyn RunStore {
    client.runs().expect("the store has leases")
}

/// All ask for each of many slots, one after the other.
///
/// # Panics
/// If a slot has not exactly one winner, or a fence was granted twice.
pub async fn one_wins_each_slot(clients: &Clients, slots: i64) {
    let tasks = clients.iter().enumerate().map(|(number, client)| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for slot in 1..=slots {
                let claim = claim("race", slot, &format!("token-{number}-{slot}"));
                let outcome = runs(&client).claim(&claim).await.expect("answers");
                if outcome.kind == OutcomeKind::Won {
                    won.push((slot, outcome.fence.expect("a grant has a fence")));
                } else {
                    assert_eq!(outcome.kind, OutcomeKind::Running, "slot {slot}");
                }
            }
            won
        })
    });
    let mut winners: HashMap<i64, usize> = HashMap::new();
    let mut fences = Vec::new();
    for task in join_all(tasks).await {
        for (slot, fence) in task.expect("the task ends") {
            *winners.entry(slot).or_default() += 1;
            fences.push(fence);
        }
    }
    assert_eq!(winners.len(), usize::try_from(slots).expect("few"));
    assert!(winners.values().all(|count| *count == 1), "{winners:?}");
    fences.sort_unstable();
    assert_eq!(fences, (1..=slots).collect::<Vec<i64>>(), "a fence was granted twice");
}

/// All ask for the same slots of many jobs, each in an order of its own, all together.
///
/// # Panics
/// If a job has not exactly one winner.
pub async fn one_wins_each_job_of_a_batch(clients: &Clients, jobs: usize) {
    let calls = clients.iter().enumerate().map(|(number, client)| {
        let client = client.clone();
        let mut claims: Vec<_> = (0..jobs)
            .map(|job| claim(&format!("batch-{job}"), 60_000, &format!("t{number}")))
            .collect();
        claims.rotate_left(number * jobs / 7 % jobs);
        tokio::spawn(async move {
            let answers = runs(&client).claim_all(&claims).await;
            let won = claims
                .into_iter()
                .zip(answers)
                .filter(|(_, answer)| answer.as_ref().expect("answers").kind == OutcomeKind::Won);
            won.map(|(claim, _)| claim.input.job).collect::<Vec<String>>()
        })
    });
    let mut winners: HashMap<String, usize> = HashMap::new();
    for task in join_all(calls).await {
        for job in task.expect("the task ends") {
            *winners.entry(job).or_default() += 1;
        }
    }
    assert_eq!(winners.len(), jobs);
    assert!(winners.values().all(|count| *count == 1), "{winners:?}");
}

/// All ask for each of many slots without leases.
///
/// # Panics
/// If a slot has not exactly one winner.
pub async fn one_wins_without_leases(clients: &Clients, slots: i64) {
    for slot in 1..=slots {
        let tasks = clients.iter().enumerate().map(|(number, client)| {
            let client = client.clone();
            tokio::spawn(async move {
                client.claim(&input("plain", slot, &format!("t{number}"))).await.expect("answers")
            })
        });
        let answers = join_all(tasks).await;
        let won = answers.iter().filter(|won| *won.as_ref().expect("the task ends")).count();
        assert_eq!(won, 1, "slot {slot}");
    }
}

/// All register the same jobs at the same time.
///
/// # Panics
/// If one cannot, or a job is not there afterwards.
pub async fn all_register_the_same(clients: &Clients, jobs: usize) {
    let limits: Vec<_> = (0..jobs).map(|job| limits(&format!("registered-{job}"))).collect();
    let answers = join_all(clients.iter().map(|client| client.prepare_jobs(&limits))).await;
    for answer in answers.into_iter().flatten() {
        answer.expect("registers");
    }
    let names: Vec<String> = limits.iter().map(|job| job.name.clone()).collect();
    let surveys = runs(&clients[0]).survey_all(&names).await;
    assert!(surveys.iter().all(|survey| survey.as_ref().is_ok_and(|survey| survey.since > 0)));
}
