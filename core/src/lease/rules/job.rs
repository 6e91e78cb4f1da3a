//! What is asked about a job as a whole.

use crate::backend::contract::{PauseRequest, Survey};
use crate::lease::model::{JobHeader, MISSED_KEPT, MissedRange, Paused, Run, RunKey};
use crate::lease::rules::draft::Draft;
use crate::lease::rules::{Answer, active_run};

impl Draft<'_> {
    pub(super) fn survey(&mut self) -> Answer {
        self.settle();
        let now = self.now;
        let runs = self.unfinished().into_iter().map(|run| active_run(run, now)).collect();
        let slots = self.all().into_iter().filter(|run| !run.manual).map(|run| run.slot).collect();
        let header = &self.header;
        Answer::Survey(Survey {
            now_ms: now,
            schedule: header.schedule.clone(),
            since: header.since,
            floor: header.floor,
            paused: header.paused.clone(),
            slots,
            runs,
            missed: header.missed.clone(),
            zone_tables: header.zone_tables.clone(),
        })
    }

    pub(super) fn record_missed(&mut self, range: &MissedRange) -> Answer {
        let missed = &mut self.header.missed;
        if missed.iter().any(|known| known.from <= range.from && range.to <= known.to) {
            return Answer::Bool(false);
        }
        missed.push(MissedRange { at: self.now, ..range.clone() });
        let extra = missed.len().saturating_sub(MISSED_KEPT);
        missed.drain(..extra);
        Answer::Bool(true)
    }

    pub(super) fn set_paused(&mut self, request: Option<&PauseRequest>) -> Answer {
        match (request, self.header.paused.take()) {
            (Some(request), before) => {
                let since = before.map_or(self.now, |paused| paused.since);
                let (by, reason) = (request.by.clone(), request.reason.clone());
                self.header.paused = Some(Paused { since, by, reason });
            }
            (None, Some(paused)) => {
                // A pause is not caught up: its slots are accounted for here, for the whole fleet.
                self.record_missed(&MissedRange {
                    from: paused.since,
                    to: self.now,
                    count: 0,
                    reason: "paused".to_owned(),
                    by: paused.by,
                    at: self.now,
                });
            }
            (None, None) => {}
        }
        Answer::Bool(true)
    }

    /// Drops what has ended and the definition. What a fleet that goes on may still ask for does
    /// not change with it: the floor, the fence and the limits of trimming stay.
    pub(super) fn forget(&mut self) -> Answer {
        self.settle();
        if !self.unfinished().is_empty() {
            return Answer::Bool(false);
        }
        let ended: Vec<RunKey> = self.all().into_iter().map(Run::key).collect();
        for key in ended {
            self.drop_record(key);
        }
        self.header = JobHeader {
            floor: self.header.floor,
            fence: self.header.fence,
            keep_ms: self.header.keep_ms,
            keep_slots: self.header.keep_slots,
            keep_window_ms: self.header.keep_window_ms,
            ..JobHeader::default()
        };
        Answer::Bool(true)
    }
}
