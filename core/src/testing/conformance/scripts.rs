//! The rules one by one, as scripts that a store and the reference follow.

use crate::backend::contract::{ClaimKind, Overlap};
use crate::lease::model::Status;
use crate::testing::conformance::bed::Bed;
use crate::testing::conformance::script::play;
use crate::testing::conformance::step::{
    AHEAD, ALL, Lease, Step, TOO_FAR, backup, beat, by_hand, catch_up, claim, finish, finish_as,
    keeping, late, release, short, skip, takeovers, with,
};
use crate::testing::conformance::{Case, CaseEnd, Halt};

/// A line of the table for a script.
macro_rules! script {
    ($name:expr, $steps:path) => {
        Case { name: $name, leases: true, run: |bed| Box::pin(follow(bed, $steps())) }
    };
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        script!("rule 1: a run that has ended is done for everybody", ended),
        script!("rule 2: the same claim again is the same grant, and renews the lease", repeated),
        script!("rule 2: a lease that was given back is spent", spent),
        script!("rule 3: a run whose lease is alive is running, whoever asks", alive),
        script!(
            "rule 4: a run whose lease is over is taken over, and its holder is out",
            taken_over
        ),
        script!("rule 4: a run is taken over as often as it allows, then it is lost", lost),
        script!("rule 5: a slot at or below the floor is late", floor),
        script!(
            "rules 6 and 7: a backup and a catch-up start nothing that is not theirs",
            not_theirs
        ),
        script!("rule 8: a slot that is too late is late, a catch-up is not", too_late),
        script!("rule 8a: a paused job starts nothing, and what has begun goes on", paused),
        script!("rule 9: a slot too far ahead is early", early),
        script!("rule 10: another unfinished run is in the way", in_the_way),
        script!("heartbeat: only with the token, forward, and not after a release", heartbeats),
        script!("finish: only with the token, and the same answer when repeated", finishes),
        script!("release: only with the token, and true again when repeated", releases),
        script!("cancel: ends a run whoever holds it", cancelled),
        script!("active and survey: show what is unfinished and what is recorded", shown),
        script!("manual runs under a lease: repeated, refused, and never taken over", manual),
        script!("missed ranges: recorded once for the fleet", missed),
        script!("forget: drops what has ended, and no slot starts again", forgotten),
        script!("registering: the definition in force, and the one before it", registered),
        script!("trimming: what is younger than keepMs stays", young),
        script!("trimming: the newest keepSlots slots stay", wanted),
    ]
}

const PLAIN: Step = Step::Register { schedule: 1, history_size: 100, keep_ms: 0, keep_slots: 0 };

async fn follow(bed: Bed, steps: Vec<Step>) -> CaseEnd {
    let (registered, rest) = match steps.split_first() {
        Some((first @ Step::Register { .. }, rest)) => (first.clone(), rest),
        _ => (PLAIN, &steps[..]),
    };
    match play(&bed, &registered, rest).await? {
        None => Ok(()),
        Some(mismatch) => Err(Halt::Failed(mismatch.text())),
    }
}

fn ended() -> Vec<Step> {
    let mut steps = Vec::new();
    for (slot, status) in [Status::Succeeded, Status::Failed, Status::TimedOut, Status::Cancelled]
        .into_iter()
        .enumerate()
    {
        let slot = i64::try_from(slot).unwrap_or(0);
        steps.extend([claim(slot, 1), finish_as(slot, 1, status), claim(slot, 2), claim(slot, 1)]);
        steps.extend([backup(slot, 3), catch_up(slot, 3), late(claim(slot, 3))]);
    }
    steps.push(ALL);
    steps
}

fn repeated() -> Vec<Step> {
    vec![
        claim(0, 1),
        claim(0, 1),
        claim(1, 2),
        claim(0, 1),
        // The second sending renews a lease that was over.
        short(2, 3),
        claim(2, 3),
        backup(2, 4),
        // It never moves a lease back.
        claim(3, 5),
        with(claim(3, 5), |claim| claim.kind = ClaimKind::Backup),
        claim(3, 6),
        ALL,
    ]
}

fn spent() -> Vec<Step> {
    vec![
        claim(0, 1),
        release(0, 1),
        claim(0, 1),
        beat(0, 1, Lease::Long),
        claim(0, 2),
        claim(0, 1),
        ALL,
    ]
}

fn alive() -> Vec<Step> {
    vec![
        claim(0, 1),
        claim(0, 2),
        backup(0, 3),
        catch_up(0, 3),
        late(claim(0, 3)),
        skip(claim(0, 4)),
        ALL,
    ]
}

fn taken_over() -> Vec<Step> {
    vec![
        short(0, 1),
        backup(0, 2),
        beat(0, 1, Lease::Long),
        finish(0, 1),
        release(0, 1),
        Step::Pass,
        backup(0, 3),
        beat(0, 2, Lease::Long),
        finish(0, 2),
        ALL,
        // Whatever the kind, and whatever the asker would allow.
        short(1, 1),
        late(claim(1, 2)),
        short(2, 1),
        takeovers(catch_up(2, 2), 0),
        ALL,
    ]
}

fn lost() -> Vec<Step> {
    vec![
        takeovers(short(0, 1), 1),
        with(backup(0, 2), |claim| claim.lease = Lease::Short),
        Step::Active,
        ALL,
        backup(0, 3),
        beat(0, 2, Lease::Long),
        finish(0, 2),
        ALL,
        takeovers(short(1, 1), 0),
        Step::Active,
        // Until somebody settles, the holder may still renew it.
        beat(1, 1, Lease::Long),
        backup(1, 2),
        finish(1, 1),
        ALL,
        // A release is no crash.
        takeovers(claim(2, 1), 0),
        release(2, 1),
        backup(2, 2),
        release(2, 2),
        backup(2, 3),
        ALL,
    ]
}

fn floor() -> Vec<Step> {
    let mut steps = vec![keeping(2)];
    for slot in 10..16 {
        steps.extend([claim(slot, 1), finish(slot, 1)]);
    }
    steps.extend([
        claim(10, 2),
        claim(13, 2),
        claim(5, 2),
        backup(5, 2),
        catch_up(5, 2),
        claim(14, 2),
    ]);
    steps.extend([claim(16, 2), ALL]);
    steps
}

fn not_theirs() -> Vec<Step> {
    vec![backup(0, 1), catch_up(-5, 1), ALL, catch_up(0, 1), claim(-5, 2), ALL]
}

fn too_late() -> Vec<Step> {
    vec![late(claim(0, 1)), ALL, late(catch_up(0, 1)), late(claim(1, 1)), claim(1, 1), ALL]
}

fn paused() -> Vec<Step> {
    vec![
        claim(0, 1),
        short(1, 2),
        Step::Pause,
        claim(2, 1),
        catch_up(2, 1),
        late(claim(2, 1)),
        beat(0, 1, Lease::Long),
        backup(1, 3),
        claim(0, 1),
        finish(0, 1),
        Step::Pause,
        Step::Resume,
        claim(2, 1),
        Step::Resume,
        ALL,
    ]
}

fn early() -> Vec<Step> {
    vec![claim(TOO_FAR, 1), ALL, claim(AHEAD, 1), ALL, catch_up(TOO_FAR + 1, 1)]
}

fn in_the_way() -> Vec<Step> {
    vec![
        claim(0, 1),
        skip(claim(1, 2)),
        ALL,
        claim(1, 3),
        // Not judged before its time, and a catch-up may ask again.
        skip(claim(AHEAD, 2)),
        skip(catch_up(2, 2)),
        ALL,
        finish(0, 1),
        skip(catch_up(2, 2)),
        claim(3, 3),
        skip(claim(4, 4)),
        finish(2, 2),
        finish(3, 3),
        // A run whose lease is over is in the way until it ends, unless it is lost.
        short(5, 1),
        skip(claim(6, 2)),
        backup(5, 2),
        finish(5, 2),
        takeovers(short(7, 1), 0),
        skip(claim(8, 2)),
        ALL,
    ]
}

fn heartbeats() -> Vec<Step> {
    vec![
        claim(0, 1),
        beat(0, 2, Lease::Long),
        beat(1, 1, Lease::Long),
        beat(0, 1, Lease::Short),
        claim(0, 2),
        short(2, 1),
        beat(2, 1, Lease::Long),
        claim(2, 2),
        release(2, 1),
        beat(2, 1, Lease::Long),
        claim(2, 3),
        finish(0, 1),
        beat(0, 1, Lease::Long),
        ALL,
    ]
}

fn finishes() -> Vec<Step> {
    vec![
        claim(0, 1),
        finish(0, 2),
        finish(1, 1),
        claim(0, 2),
        finish_as(0, 1, Status::Failed),
        finish_as(0, 1, Status::Failed),
        finish(0, 1),
        ALL,
        short(1, 1),
        finish(1, 1),
        backup(1, 2),
        claim(2, 1),
        release(2, 1),
        finish(2, 1),
        ALL,
    ]
}

fn releases() -> Vec<Step> {
    vec![
        claim(0, 1),
        release(0, 2),
        claim(0, 2),
        release(0, 1),
        release(0, 1),
        Step::Active,
        claim(0, 2),
        release(0, 1),
        finish(0, 2),
        release(0, 2),
        release(9, 1),
        ALL,
    ]
}

fn cancelled() -> Vec<Step> {
    let cancel = |slot| Step::Cancel { slot, manual: false };
    vec![
        claim(0, 1),
        cancel(0),
        beat(0, 1, Lease::Long),
        finish(0, 1),
        cancel(0),
        cancel(7),
        claim(0, 2),
        ALL,
    ]
}

fn shown() -> Vec<Step> {
    vec![
        claim(3, 1),
        short(1, 2),
        takeovers(short(2, 3), 0),
        claim(0, 4),
        finish(0, 4),
        Step::Active,
        Step::Survey,
        Step::Active,
        ALL,
        Step::History { limit: 2 },
    ]
}

fn manual() -> Vec<Step> {
    let refused = Step::Manual {
        by: 3,
        slot: 5,
        token: 30,
        lease: Lease::Long,
        overlap: Overlap::Skip,
        force: false,
        too_old: false,
    };
    let forced = Step::Manual {
        by: 3,
        slot: 5,
        token: 30,
        lease: Lease::Short,
        overlap: Overlap::Skip,
        force: true,
        too_old: false,
    };
    let old = Step::Manual {
        by: 3,
        slot: 5,
        token: 31,
        lease: Lease::Long,
        overlap: Overlap::Allow,
        force: false,
        too_old: true,
    };
    vec![
        Step::Register { schedule: 1, history_size: 100, keep_ms: 3_600_000, keep_slots: 0 },
        by_hand(0, 1),
        by_hand(0, 2),
        by_hand(0, 2),
        claim(0, 3),
        beat(0, 1, Lease::Long),
        skip(claim(4, 4)),
        refused,
        Step::Active,
        finish(0, 3),
        forced,
        Step::Active,
        finish(0, 1),
        by_hand(0, 1),
        Step::Cancel { slot: 1, manual: true },
        old,
        ALL,
    ]
}

fn missed() -> Vec<Step> {
    let range = |from, to| Step::Missed { from, to };
    vec![range(0, 3), range(0, 3), range(1, 2), range(3, 6), Step::Survey]
}

fn forgotten() -> Vec<Step> {
    vec![
        claim(3, 1),
        Step::Forget,
        finish(3, 1),
        Step::Forget,
        ALL,
        claim(3, 2),
        claim(2, 2),
        claim(4, 2),
        ALL,
    ]
}

fn registered() -> Vec<Step> {
    let register =
        |schedule| Step::Register { schedule, history_size: 100, keep_ms: 0, keep_slots: 0 };
    vec![
        register(1),
        catch_up(0, 1),
        register(1),
        catch_up(1, 1),
        register(2),
        Step::Survey,
        catch_up(2, 1),
        register(1),
        Step::Survey,
        claim(2, 1),
        ALL,
    ]
}

fn young() -> Vec<Step> {
    let mut steps =
        vec![Step::Register { schedule: 1, history_size: 2, keep_ms: 3_600_000, keep_slots: 0 }];
    for slot in 0..5 {
        steps.extend([claim(slot, 1), finish(slot, 1)]);
    }
    steps.extend([claim(0, 2), ALL, Step::Survey]);
    steps
}

fn wanted() -> Vec<Step> {
    let mut steps =
        vec![Step::Register { schedule: 1, history_size: 1, keep_ms: 0, keep_slots: 3 }];
    for slot in 0..6 {
        steps.extend([claim(slot, 1), finish(slot, 1)]);
    }
    steps.extend([ALL, Step::Survey, claim(3, 2), claim(2, 2)]);
    steps
}
