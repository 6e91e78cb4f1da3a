//! Claims per second against the bare minimum, from one connection and from sixteen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anarchon::backend::contract::Backend;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::store::{Store, ask, end, first_slot, limits, opened};
use crate::{median, tell};

/// So many jobs, so that winners do not wait for each other.
const JOBS: usize = 16;
const LOOKS: usize = 100;
/// How long each comparison goes on, and how many slots it has at least.
const LENGTH: Duration = Duration::from_millis(2_500);
const AT_LEAST: usize = 10;

fn job(number: usize) -> String {
    format!("job-{number}")
}

async fn seconds<F: Future>(work: F) -> f64 {
    let begin = Instant::now();
    work.await;
    begin.elapsed().as_secs_f64()
}

fn tell_rate(name: &str, count: usize, spent: Vec<f64>) {
    tell(name, count as f64 / median(spent), "/s");
}

/// Both sides of a store, each with so many connections.
struct Sides {
    bare: Vec<Arc<Mutex<Bare>>>,
    /// Two instances on each connection's side.
    ours: Vec<[Arc<dyn Backend>; 2]>,
}

/// All jobs, divided among the connections; each is a task of its own, as clients of a server are.
async fn each_on_its_lane<F>(lanes: usize, work: impl Fn(usize, Vec<usize>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let jobs = |lane| (lane..JOBS).step_by(lanes).collect();
    let mut tasks: JoinSet<()> = (0..lanes).map(|lane| work(lane, jobs(lane))).collect();
    while let Some(ended) = tasks.join_next().await {
        ended.expect("answers");
    }
}

impl Sides {
    async fn open(store: &Store, count: usize) -> Option<Sides> {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..count {
            bare.push(Arc::new(Mutex::new(Bare::connect(store).await?)));
            let url = store.with_pool(1);
            ours.push([opened(&url).await, opened(&url).await]);
        }
        Some(Sides { bare, ours })
    }

    /// All jobs of one slot, by the one connection in turn or by all at once.
    async fn bare_slot(&self, slot: i64) -> f64 {
        seconds(each_on_its_lane(self.bare.len(), |lane, jobs| {
            let bare = self.bare[lane].clone();
            async move {
                let mut bare = bare.lock().await;
                for number in jobs {
                    bare.win(&job(number), slot).await;
                }
            }
        }))
        .await
    }

    /// The same by one of the two instances.
    async fn our_slot(&self, slot: i64, which: usize) -> f64 {
        let lanes = self.ours.len();
        let spent = seconds(each_on_its_lane(lanes, |lane, jobs| {
            let ours = self.ours[lane][which].clone();
            async move {
                for number in jobs {
                    assert!(ask(&ours, &job(number), slot, "winner").await);
                }
            }
        }))
        .await;
        // A run that has begun also ends, or the job would collect unfinished ones; only the
        // claims are timed.
        each_on_its_lane(lanes, |lane, jobs| {
            let ours = self.ours[lane][which].clone();
            async move {
                for number in jobs {
                    end(&ours, &job(number), slot, "winner").await;
                }
            }
        })
        .await;
        spent
    }

    async fn close(self) {
        for store in self.ours.into_iter().flatten() {
            store.close().await.expect("closes");
        }
    }
}

async fn winners(store: &Store, count: usize, first: i64) -> Option<i64> {
    let sides = Sides::open(store, count).await?;
    let words = sides.bare[0].lock().await.take_words();
    let connections = if count == 1 { "1 connection" } else { "16 connections" };
    let mut slot = first;
    // What is prepared is prepared in the first few, which are not counted.
    for which in [0, 1, 0, 1] {
        sides.bare_slot(slot).await;
        sides.our_slot(slot, which).await;
        slot += 1;
    }
    // All claims of a job by one instance; and by two that take turns, so that each finds what the
    // other has written.
    let (mut bare, mut ours) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (instances, spent) in ours.iter_mut().enumerate() {
        let begin = Instant::now();
        while begin.elapsed() < LENGTH || spent.len() < AT_LEAST {
            bare.push(sides.bare_slot(slot).await);
            spent.push(sides.our_slot(slot, spent.len() % (instances + 1)).await);
            slot += 1;
        }
    }
    let [alone, in_turns] = ours;
    tell_rate(&format!("{}: bare {words}, {connections}", store.name), JOBS, bare);
    tell_rate(&format!("{}: claims won, {connections}", store.name), JOBS, alone);
    tell_rate(
        &format!("{}: claims won by two in turns, {connections}", store.name),
        JOBS,
        in_turns,
    );
    sides.close().await;
    Some(slot)
}

async fn losers(store: &Store, slot: i64) -> Option<()> {
    let sides = Sides::open(store, 1).await?;
    let mut looking = sides.bare[0].lock().await;
    for number in 0..JOBS {
        looking.win(&job(number), slot).await;
        assert!(ask(&sides.ours[0][0], &job(number), slot, "holder").await);
    }
    let ways = looking.looks();
    let (mut bare, mut ours) = (vec![Vec::new(); ways.len()], Vec::new());
    for round in 0..=15 {
        // What is prepared is prepared in the first round, which is not counted.
        if round == 1 {
            bare.iter_mut().chain([&mut ours]).for_each(Vec::clear);
        }
        for (spent, (how, _)) in bare.iter_mut().zip(ways) {
            let looks = seconds(async {
                for number in 0..LOOKS {
                    looking.look(*how, &job(number % JOBS), slot).await;
                }
            });
            spent.push(looks.await);
        }
        let asks = seconds(async {
            for number in 0..LOOKS {
                assert!(!ask(&sides.ours[0][0], &job(number % JOBS), slot, "loser").await);
            }
        });
        ours.push(asks.await);
    }
    drop(looking);
    for (spent, (_, words)) in bare.into_iter().zip(ways) {
        tell_rate(&format!("{}: bare {words}, 1 connection", store.name), LOOKS, spent);
    }
    tell_rate(&format!("{}: claims lost, 1 connection", store.name), LOOKS, ours);
    sides.close().await;
    Some(())
}

/// Winners from one connection and from sixteen, losers from one.
pub async fn measure(store: &Store) {
    let Some(mut bare) = Bare::connect(store).await else { return };
    bare.clean().await;
    bare.prepare().await;
    let ours = opened(&store.with_pool(1)).await;
    for number in 0..JOBS {
        ours.prepare_job(&limits(&job(number))).await.expect("registers");
    }
    ours.close().await.expect("closes");
    let Some(next) = winners(store, 1, first_slot()).await else { return };
    let Some(next) = winners(store, 16, next).await else { return };
    let _measured = losers(store, next).await;
}
