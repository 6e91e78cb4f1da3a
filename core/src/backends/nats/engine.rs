//! Load, decide, publish on condition; and again, if somebody was faster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, Shared as SharedFuture, join, join_all, join3};

use super::api::{Api, Published};
use super::link::mono_ms;
use super::source::Source;
use super::store::Shared;
use super::stored::{Stored, encode_body};
use super::subjects;
use crate::backend::contract::StoredResult;
use crate::backends::own::{self, Decided, Mark};
use crate::backends::reading::Reading;
use crate::clock::{SystemClock, sleep_for};
use crate::error::{Code, Error, Result};
use crate::lease::model::RunKey;
use crate::lease::rules::{self, Answer, Call, Change};

/// How many jobs are under way at a time.
const AT_ONCE: usize = 64;

/// However short a lease is: to be passed by others a few times is no reason to give up (ms).
const LEAST_PATIENCE_MS: i64 = 200;

/// A job with more runs than this is read each time: what was written of some hundred jobs is kept.
const MOST_RUNS: usize = 256;

/// Room for the headers of a message (bytes).
const HEADERS: usize = 1_024;

/// One call on one job.
pub(super) struct Ask {
    pub(super) job: String,
    pub(super) call: Call,
}

/// A job as it was loaded.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) stored: Stored,
    /// The number of its message; 0 if there is none.
    pub(super) seq: u64,
    /// When it was stored, by the server's clock (ms).
    pub(super) at_ms: Option<i64>,
    /// How many connections had been lost before it was written here.
    losses: u64,
}

/// What calls on one job came to.
struct Verdict {
    answers: Vec<Answer>,
    /// What is to be stored; `None` if nothing changes.
    next: Option<Stored>,
    /// Bodies that were written for nothing.
    useless: Vec<u64>,
}

/// A reading of the clock that the calls of a batch share.
type FirstReading<'a> = SharedFuture<BoxFuture<'a, Result<Reading>>>;

/// The calls of a group by their places in the batch, and what they came to.
type Ended = (Vec<usize>, Result<Vec<Answer>>);

/// How calls are decided while a store is open.
pub(super) struct Engine<'a> {
    pub(super) shared: &'a Shared,
    pub(super) namespace: &'a str,
    pub(super) source: Arc<Source>,
}

/// The calls on one job that are on their way.
struct Group<'a> {
    job: &'a str,
    calls: Vec<(usize, &'a Call)>,
    /// The numbers of the bodies written for the calls, by the place of the call.
    bodies: BTreeMap<usize, u64>,
    /// Writings whose outcome is unknown: their stamps, and what they would have answered. One may
    /// still get through after the next has been tried.
    unknown: Vec<(String, Vec<Answer>)>,
    /// Archives that those name.
    doubtful: Vec<u64>,
}

/// What became of an attempt.
enum Attempted {
    Answered(Vec<Answer>),
    /// Somebody was faster.
    Behind,
    /// What was written here last did not serve after all: it has to be read.
    Unread,
}

impl Group<'_> {
    fn asked(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|(_, call)| *call)
    }
}

impl Engine<'_> {
    /// Decides one call.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE`: whether it took effect is unknown.
    pub(super) async fn run(&self, job: &str, call: Call) -> Result<Answer> {
        let mut answers = self.run_all(&[Ask { job: job.to_owned(), call }]).await;
        answers.pop().unwrap_or_else(|| Err(Error::unavailable("NATS gave no answer")))
    }

    /// Decides calls; one answer each. Those on one job are decided together, in order.
    pub(super) async fn run_all(&self, asks: &[Ask]) -> Vec<Result<Answer>> {
        let link = match self.shared.links.take().await {
            Ok(link) => link,
            Err(error) => return asks.iter().map(|_| Err(error.clone())).collect(),
        };
        let api = self.shared.api(&link);
        let deadline = mono_ms() + self.patience_ms(asks);
        let first: FirstReading<'_> = self.source.read(&api).boxed().shared();
        let mut groups: Vec<BoxFuture<'_, Ended>> = Vec::new();
        for group in grouped(asks) {
            groups.push(self.settle(&api, group, &first, deadline).boxed());
        }
        let mut answers: Vec<Option<Result<Answer>>> = asks.iter().map(|_| None).collect();
        let mut ends = futures_util::stream::iter(groups).buffer_unordered(AT_ONCE);
        while let Some((places, ended)) = ends.next().await {
            match ended {
                Ok(given) => {
                    for (place, answer) in places.into_iter().zip(given) {
                        answers[place] = Some(Ok(answer));
                    }
                }
                Err(error) => {
                    for place in places {
                        answers[place] = Some(Err(error.clone()));
                    }
                }
            }
        }
        drop(ends);
        let silent = || Err(Error::unavailable("NATS gave too few answers"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
    }

    /// How long calls are tried again (ms): up to their deadline, a sixth of the lease.
    fn patience_ms(&self, asks: &[Ask]) -> i64 {
        let leases = asks.iter().filter_map(|ask| match &ask.call {
            Call::Claim(claim) => claim.input.lease_ms,
            Call::ClaimManual(input) => input.lease_ms,
            Call::Heartbeat { lease_ms, .. } => Some(*lease_ms),
            _ => None,
        });
        let sixth = leases.map(|lease_ms| lease_ms / 6).min().unwrap_or(i64::MAX);
        self.shared.options.call_timeout_ms.min(sixth.max(LEAST_PATIENCE_MS))
    }

    /// Tries until the calls of a job are answered or their deadline has come.
    async fn settle(
        &self,
        api: &Api<'_>,
        mut group: Group<'_>,
        first: &FirstReading<'_>,
        deadline: i64,
    ) -> Ended {
        let places: Vec<usize> = group.calls.iter().map(|(place, _)| *place).collect();
        for round in 0_u32.. {
            let reading = async {
                if round == 0 { first.clone().await } else { self.source.read(api).await }
            };
            let own = self.own(api, group.job).filter(|_| round == 0);
            let failed = match self.attempt(api, &mut group, reading, own).await {
                Ok(Attempted::Answered(answers)) => return (places, Ok(answers)),
                Ok(Attempted::Unread) => continue,
                Ok(Attempted::Behind) => None,
                Err(error) if error.code() == Some(Code::BackendUnavailable) => Some(error),
                Err(error) => return (places, Err(error)),
            };
            if failed.is_some() {
                self.source.doubt();
            }
            let pause = self.pause_ms(round, failed.is_some());
            if mono_ms() + pause >= deadline {
                return (places, Err(failed.unwrap_or_else(|| contended(group.job))));
            }
            if pause > 0 {
                sleep_for(&SystemClock, pause).await;
            }
        }
        (places, Err(contended(group.job)))
    }

    /// Somebody was faster: again at once, and only a crowd waits. After an error longer.
    fn pause_ms(&self, round: u32, after_error: bool) -> i64 {
        let random = &self.shared.random;
        match (after_error, round) {
            (true, _) => 5 + random.up_to((10 << round.min(6)).min(500)),
            (false, 0..3) => 0,
            (false, _) => random.up_to((1 << round.min(6)).min(50)),
        }
    }

    /// Loads, unless what was written here last serves the calls; decides and publishes once.
    async fn attempt(
        &self,
        api: &Api<'_>,
        group: &mut Group<'_>,
        reading: impl Future<Output = Result<Reading>>,
        mut own: Option<(Loaded, Mark)>,
    ) -> Result<Attempted> {
        let job = group.job;
        let mark = own.as_ref().map(|own| own.1);
        let unread = own.take_if(|own| own.1.serves(&own.0.stored.state, group.asked()));
        let is_unread = unread.is_some();
        let behind = || if is_unread { Attempted::Unread } else { Attempted::Behind };
        let load = async {
            match unread {
                Some((loaded, _)) => Ok(loaded),
                None => self.load(api, job).await,
            }
        };
        let (loaded, reading, bodies) = join3(load, reading, self.write_bodies(api, group)).await;
        // What was written counts also where something else failed: it is not written again.
        let bodies = bodies.into_iter().filter_map(|(place, seq)| match seq {
            Ok(seq) => {
                group.bodies.insert(place, seq);
                None
            }
            Err(error) => Some(error),
        });
        let failed: Vec<Error> = bodies.collect();
        let (mut loaded, reading) = (loaded?, reading?);
        if let Some(error) = failed.into_iter().next() {
            return Err(error);
        }
        let ours = group.unknown.iter().find(|(stamp, _)| *stamp == loaded.stored.stamp);
        if let Some((_, answers)) = ours {
            return Ok(Attempted::Answered(answers.clone()));
        }
        let wanted = loaded.stored.wanted_by(group.asked());
        if !self.fill(api, &mut loaded.stored, wanted).await? {
            return Ok(behind());
        }
        let now = reading.now(mono_ms(), loaded.at_ms);
        let gone = std::mem::take(&mut loaded.stored.gone);
        let runs = loaded.stored.state.runs.len();
        let verdict = decide(loaded.stored, group, now);
        let Some(mut next) = verdict.next else {
            if is_unread {
                return Ok(Attempted::Unread);
            }
            if let Some(own) = own.filter(|own| own.0.seq == loaded.seq) {
                self.shared.owns.put(self.namespace, job, own);
            }
            api.remove(&verdict.useless).await;
            return Ok(Attempted::Answered(verdict.answers));
        };
        if is_unread && !own::are_guarded(&verdict.answers) {
            return Ok(Attempted::Unread);
        }
        let archive = self.archive(api, group, &mut next).await;
        next.stamp = self.shared.random.token();
        let text = next.encode()?;
        let grows = next.state.runs.len() > runs;
        if let Err(error) = self.check_size(api, job, text.len(), grows) {
            api.remove(archive.as_slice()).await;
            // It may not be what is stored that is too large.
            return if is_unread { Ok(Attempted::Unread) } else { Err(error) };
        }
        // What the state loaded says is to be removed is removed before the state that no longer
        // says it.
        api.remove(&gone).await;
        let subject = subjects::of_job(&self.shared.options.prefix, self.namespace, job);
        let losses = api.link.losses();
        match api.publish(subject, text, Some(loaded.seq)).await {
            Ok(Published::As(seq)) => {
                api.remove(&verdict.useless).await;
                // A writing in doubt that had got through would be named by what came after it; one
                // that had not can do so no more.
                group.doubtful.retain(|number| !next.is_named(*number));
                api.remove(&std::mem::take(&mut group.doubtful)).await;
                let decided = Decided {
                    on: (loaded.seq > 0).then_some(loaded.seq),
                    is_whole: true,
                    calls: group.asked(),
                    answers: &verdict.answers,
                    now,
                };
                let mark = Mark::of(decided, mark, seq);
                self.keep(job, next, losses, mark);
                Ok(Attempted::Answered(verdict.answers))
            }
            Ok(Published::Behind) => {
                api.remove(archive.as_slice()).await;
                Ok(behind())
            }
            Err(error) => {
                group.unknown.push((next.stamp, verdict.answers));
                group.doubtful.extend(archive);
                Err(error)
            }
        }
    }

    /// What was written here last of a job, unless a connection was lost since: the next one may
    /// lead to another server, with another stream of this name.
    fn own(&self, api: &Api<'_>, job: &str) -> Option<(Loaded, Mark)> {
        let own = self.shared.owns.take(self.namespace, job);
        own.filter(|own| own.0.losses == api.link.losses())
    }

    fn keep(&self, job: &str, stored: Stored, losses: u64, mark: Mark) {
        if stored.state.runs.len() <= MOST_RUNS {
            let (seq, at_ms) = (mark.version, Some(mark.decided_at));
            let written = Loaded { stored, seq, at_ms, losses };
            self.shared.owns.put(self.namespace, job, (written, mark));
        }
    }

    /// The state of a job as it stands.
    pub(super) async fn load(&self, api: &Api<'_>, job: &str) -> Result<Loaded> {
        let subject = subjects::of_job(&self.shared.options.prefix, self.namespace, job);
        let Some(kept) = api.last(&subject).await? else { return Ok(Loaded::default()) };
        let stored = Stored::decode(&subject, &kept.data)?;
        Ok(Loaded { stored, seq: kept.seq, at_ms: Some(kept.at_ms), ..Loaded::default() })
    }

    /// Reads archives into a state. False if one is no longer kept: the state is an old one.
    pub(super) async fn fill(
        &self,
        api: &Api<'_>,
        stored: &mut Stored,
        archives: BTreeSet<u64>,
    ) -> Result<bool> {
        let numbers: Vec<u64> = archives.into_iter().collect();
        let mut is_whole = true;
        for (number, kept) in numbers.iter().zip(api.messages(&numbers).await?) {
            match kept {
                Some(kept) => stored.fill(*number, &kept.data)?,
                None => is_whole = false,
            }
        }
        Ok(is_whole)
    }

    /// Archives what has ended, if it is time to. Where that fails the state stays as large as it
    /// is, and what is next decided tries again.
    async fn archive(&self, api: &Api<'_>, group: &Group<'_>, next: &mut Stored) -> Option<u64> {
        let keys = next.to_archive(self.shared.options.archive_together, group.asked());
        if keys.is_empty() {
            return None;
        }
        let prefix = &self.shared.options.prefix;
        let once = self.shared.random.token();
        let subject = subjects::of_archive(prefix, self.namespace, group.job, &once);
        let text = next.encode_archive(&keys).ok()?;
        self.check_size(api, group.job, text.len(), false).ok()?;
        let Ok(Published::As(number)) = api.publish(subject, text, None).await else { return None };
        next.archived.extend(keys.into_iter().map(|key| (key, number)));
        Some(number)
    }

    /// The state of a job, and the store's time (ms).
    pub(super) async fn look(&self, api: &Api<'_>, job: &str) -> Result<(Stored, i64)> {
        let (loaded, reading) = join(self.load(api, job), self.source.read(api)).await;
        let loaded = loaded?;
        Ok((loaded.stored, reading?.now(mono_ms(), loaded.at_ms)))
    }

    /// Writes the bodies that the calls bring, each on a subject of its own.
    async fn write_bodies(&self, api: &Api<'_>, group: &Group<'_>) -> Vec<(usize, Result<u64>)> {
        let missing = group.calls.iter().filter(|(place, _)| !group.bodies.contains_key(place));
        let writings = missing.filter_map(|(place, call)| {
            let result = body_of(call)?;
            Some(async move { (*place, self.write_body(api, group.job, result).await) })
        });
        join_all(writings).await
    }

    async fn write_body(&self, api: &Api<'_>, job: &str, result: &StoredResult) -> Result<u64> {
        let key = RunKey { slot: result.slot, manual: result.manual };
        let prefix = &self.shared.options.prefix;
        let once = self.shared.random.token();
        let subject = subjects::of_body(prefix, self.namespace, job, key, &once);
        let text = encode_body(result)?;
        self.check_size(api, job, text.len(), false)?;
        match api.publish(subject, text, None).await? {
            Published::As(seq) => Ok(seq),
            Published::Behind => Err(Error::unavailable("NATS answered a publish strangely")),
        }
    }

    /// A run that begins must leave room for the ends of all that have begun.
    fn check_size(&self, api: &Api<'_>, job: &str, bytes: usize, grows: bool) -> Result<()> {
        let most = api.link.client.max_payload();
        let allowed = if grows { most / 4 * 3 } else { most.saturating_sub(HEADERS) };
        if bytes <= allowed {
            return Ok(());
        }
        Err(Error::new(
            Code::BackendRefused,
            format!(
                "what is to be stored of the job {job:?} has {bytes} bytes, more than the {allowed} \
                 that are allowed of the server's max_payload, {most}; lower its historySize, or \
                 raise max_payload"
            ),
        ))
    }
}

fn contended(job: &str) -> Error {
    Error::unavailable(format!(
        "the job {job:?} was changed by others each time it was about to be changed here, until \
         the call's deadline"
    ))
}

/// The calls by job, each job once.
fn grouped(asks: &[Ask]) -> Vec<Group<'_>> {
    let mut by_job: BTreeMap<&str, Vec<(usize, &Call)>> = BTreeMap::new();
    for (place, ask) in asks.iter().enumerate() {
        by_job.entry(&ask.job).or_default().push((place, &ask.call));
    }
    let groups = by_job.into_iter();
    let group = |(job, calls)| Group {
        job,
        calls,
        bodies: BTreeMap::new(),
        unknown: Vec::new(),
        doubtful: Vec::new(),
    };
    groups.map(group).collect()
}

fn body_of(call: &Call) -> Option<&StoredResult> {
    match call {
        Call::Finish { result, .. } => result.as_ref(),
        Call::SaveResult { result, .. } => Some(result),
        _ => None,
    }
}

/// Decides the calls one after the other, at the store's time `now` (ms).
fn decide(mut next: Stored, group: &Group<'_>, now: i64) -> Verdict {
    let mut written = group.bodies.clone();
    let mut answers = Vec::with_capacity(group.calls.len());
    let mut changes = false;
    for (place, call) in &group.calls {
        let decision = rules::decide(&next.state, call, now);
        answers.push(decision.answer);
        changes |= !decision.changes.is_empty();
        rules::apply(&mut next.state, &decision.changes);
        for change in decision.changes {
            let (key, body) = match change {
                Change::Put { run, result: Some(_) } => (run.key(), written.remove(place)),
                Change::Put { run, result: None } => (run.key(), None),
                Change::Drop(key) => {
                    next.take_out(key);
                    next.gone.extend(next.bodies.remove(&key));
                    continue;
                }
                Change::Header(_) => continue,
            };
            next.take_out(key);
            let replaced = body.and_then(|body| next.bodies.insert(key, body));
            next.gone.extend(replaced);
        }
    }
    let useless = written.into_values().collect();
    Verdict { answers, next: changes.then_some(next), useless }
}
