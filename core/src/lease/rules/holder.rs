//! What the holder of a run asks for, proven by its token.

use crate::backend::contract::StoredResult;
use crate::lease::model::{Run, RunKey, Status};
use crate::lease::rules::Answer;
use crate::lease::rules::draft::Draft;
use crate::lease::rules::grant::{from_result, renew};

impl Draft<'_> {
    /// The run of this slot that the token holds, scheduled or manual.
    fn held(&self, slot: i64, token: &str) -> Option<Run> {
        let keys = [RunKey::scheduled(slot), RunKey::manual(slot)];
        keys.into_iter().filter_map(|key| self.run(key)).find(|run| run.token == token).cloned()
    }

    pub(super) fn heartbeat(&mut self, slot: i64, token: &str, lease_ms: i64) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() || run.released {
            return Answer::Bool(false);
        }
        renew(&mut run, self.now, lease_ms.max(1));
        self.put(run);
        Answer::Bool(true)
    }

    pub(super) fn finish(
        &mut self,
        slot: i64,
        token: &str,
        status: Status,
        result: Option<&StoredResult>,
    ) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(run.status == Some(status));
        }
        run.status = Some(status);
        run.ended_at = Some(self.now);
        self.put_with(run, result.cloned().map(Box::new));
        Answer::Bool(true)
    }

    pub(super) fn release(&mut self, slot: i64, token: &str) -> Answer {
        let Some(mut run) = self.held(slot, token) else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(false);
        }
        if !run.released {
            run.lease_until = self.now;
            run.released = true;
            self.put(run);
        }
        Answer::Bool(true)
    }

    pub(super) fn cancel(&mut self, key: RunKey) -> Answer {
        let Some(mut run) = self.run(key).cloned() else { return Answer::Bool(false) };
        if !run.is_unfinished() {
            return Answer::Bool(false);
        }
        run.status = Some(Status::Cancelled);
        run.ended_at = Some(self.now);
        self.put(run);
        Answer::Bool(true)
    }

    pub(super) fn save_result(
        &mut self,
        result: &StoredResult,
        history_size: i64,
        history_ttl_ms: Option<i64>,
    ) -> Answer {
        self.header.history_size = history_size;
        self.header.history_ttl_ms = history_ttl_ms;
        let key = RunKey { slot: result.slot, manual: result.manual };
        let mut run = match self.run(key).cloned() {
            // A lease is ended by its holder's token alone.
            Some(run) if run.is_unfinished() => return Answer::Bool(false),
            Some(run) => run,
            None => from_result(result),
        };
        if run.status.is_none() {
            run.status = Some(result.status);
            run.ended_at = Some(self.now);
        }
        self.put_with(run, Some(Box::new(result.clone())));
        Answer::Bool(true)
    }
}
