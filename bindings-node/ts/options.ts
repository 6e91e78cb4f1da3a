/** What a user may set, on a scheduler and on a job. */

import type { ManualClock } from './clock';
import type { Backend, CatchUp, Overlap } from './contract';
import type { Logger } from './logger';

/**
 * A length of time: a whole number of milliseconds, or a text of whole numbers with the units
 * `w d h m s ms`, each at most once and the longest first: `'500ms'`, `'90s'`, `'1h30m'`. A day is
 * 24 hours.
 */
export type Duration = number | string;

/** Further tries of a failed handler, by the same holder under the same claim. */
export interface Retries {
  /** How many further tries, 0 to 1000; default 1. */
  attempts?: number;
  /** The wait before the first of them; default 1 s. */
  backoffMs?: Duration;
  /** What the wait is multiplied with each time, 1 to 100; default 2. */
  factor?: number;
  /** The longest wait; default 60 s. */
  maxBackoffMs?: Duration;
}

/**
 * Options of a job; all have a default. The *period* of a slot is the distance to the job's next
 * slot.
 */
export interface JobOptions {
  /**
   * Longest random wait before the claim, below the shortest period; default `min(1 s, period / 10)`.
   */
  jitterMs?: Duration;
  /**
   * How late a slot may still be started; default `min(max(period, 10 s), 10 min)`. A job that sets
   * it and not `catchUp` gets `catchUp: 'none'`: then nothing ever starts later.
   */
  maxLateMs?: Duration;
  /** The time zone of a cron job, for example `'Europe/Berlin'`; default the scheduler's. */
  timezone?: string;
  /** Whether a cron expression has six fields, seconds first; default false. */
  seconds?: boolean;
  /** What is added to the slots of an `every` job; default 0. */
  offsetMs?: Duration;
  /** How long one try may take; default: no limit. At the time-out the handler is cancelled. */
  timeoutMs?: Duration;
  /**
   * How long a handler that timed out may ignore its cancellation before the run is given up as
   * `timed_out` and `abandoned`; default 60 s.
   */
  abandonAfterMs?: Duration;
  /** Further tries of a failed handler; default none. */
  retries?: Retries;
  /** Ended records kept, 1 to 100 000; default 100. */
  historySize?: number;
  /** How long they are kept; default for ever. */
  historyTtlMs?: Duration;
  /** Whether the handler's return value is kept, as JSON of up to 8 KiB; default true. */
  keepOutput?: boolean;
  /** The length of a lease, at least 1 s; default 30 s. A third of it passes between heartbeats. */
  leaseMs?: Duration;
  /** Whether runs may overlap; default `'skip'` on a store with leases, else `'allow'`. */
  overlap?: Overlap;
  /** Which missed slots are made up for; default `'latest'` on a store with leases, else `'none'`. */
  catchUp?: CatchUp;
  /** How old a slot may be to be made up for; default `max(24 h, period)`, at most 7 d. */
  catchUpWindowMs?: Duration;
  /** How many slots `catchUp: 'all'` makes up for, 1 to 1000; default 10. */
  catchUpLimit?: number;
  /** How many crashes other instances take over, 0 to 1000; default 2. 0: never started twice. */
  maxTakeovers?: number;
  /** How far this machine's clock may run ahead of the store's; default 2 s. */
  maxEarlyMs?: Duration;
}

/** Options of a scheduler; all have a default. */
export interface SchedulerOptions {
  /**
   * Where runs are claimed: a URL, or an object. Without it the variable `ANARCHON_URL`; without
   * that the file `anarchon.db` in the working directory, which coordinates the processes of one
   * machine only.
   */
  backend?: Backend | string;
  /**
   * Part of every key of the built-in backends: two applications that share a store do not meet.
   * 1 to 64 of `a-z 0-9 _ -`; default `ANARCHON_NAMESPACE`, else `'default'`.
   */
  namespace?: string;
  /** Who this is; default `host:pid:random`, drawn by `start()`. */
  instanceId?: string;
  /** The zone of cron jobs that name none; default `'UTC'`, never the machine's. */
  timezone?: string;
  /** Defaults of all jobs. */
  defaults?: JobOptions;
  /** How many runs this instance has at once, 0 to register and read only; default 100. */
  maxConcurrentRuns?: number;
  /** How long `start()` tries to reach a store; default 10 s. */
  startTimeoutMs?: Duration;
  /** Whether a running scheduler keeps the process alive; default true. */
  keepAlive?: boolean;
  /** Where log lines go; default the console for warnings and errors, `false` for quiet. */
  logger?: Logger | false;
  /** A clock for tests, for schedulers on `memory:`. */
  clock?: ManualClock;
}
