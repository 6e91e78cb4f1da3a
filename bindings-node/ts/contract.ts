/**
 * The contract between the scheduler and a store, and the records that both speak of.
 *
 * All times are whole milliseconds since the Unix epoch unless a name says otherwise.
 */

import { encode } from './encode';
import { calling } from './errors';
import { native } from './native';

/** Whether a job may start while another run of it is unfinished. */
export type Overlap = 'skip' | 'allow';

/** Which missed slots are made up for: none, the newest one, or all up to `catchUpLimit`. */
export type CatchUp = 'none' | 'latest' | 'all';

/** How a run ended. */
export type EndStatus = 'succeeded' | 'failed' | 'timed_out' | 'cancelled' | 'skipped' | 'lost';

/**
 * How a run ended, or how it stands: `running` (its lease is alive), `stalled` (its lease is over
 * and another instance may take it over), `unfinished` (claimed on a store without leases, and no
 * result is known).
 */
export type RunStatus = EndStatus | 'running' | 'stalled' | 'unfinished';

/** What an instance sends to claim a slot. */
export interface ClaimInput {
  /** The job's name, 1 to 255 bytes of UTF-8. */
  job: string;
  /** The scheduled time (ms): with `job`, the identity of the run. */
  slot: number;
  /** 128 random bits in hex, unique to this attempt. */
  token: string;
  /** Who is asking. */
  instanceId: string;
  /** How many ended records to keep, from 1. */
  historySize: number;
  /** How long to keep them (ms); for ever, if not given. */
  historyTtlMs?: number;
  /** The length of the lease asked for (ms), at least 1000. */
  leaseMs?: number;
  /** Whether another unfinished run is in the way. */
  overlap?: Overlap;
  /** A manual run that is started although another one is unfinished. */
  force?: boolean;
  /** How far the caller's clock may run ahead of the store's (ms). */
  maxEarlyMs?: number;
  /** For a manual run: when it was asked for (ms, the caller's idea of the store's clock). */
  askedAt?: number;
}

/** What an instance sends to claim a slot with a lease. It always means the scheduled run. */
export interface RunClaim extends ClaimInput {
  /** Why it is asked for: its slot has come, a lease seems to be over, or it was missed. */
  kind: 'slot' | 'backup' | 'catch_up';
  /** How many crashes other instances may take over, if this claim starts the run. */
  maxTakeovers: number;
  /** The last instant on the store's clock at which the slot may still be started (ms). */
  notAfterMs?: number;
}

/** The answers to a claim with a lease. */
export type ClaimOutcomeKind =
  | 'won'
  | 'running'
  | 'done'
  | 'overlap'
  | 'none'
  | 'late'
  | 'early'
  | 'paused';

/**
 * The answer to a claim with a lease. Everything but `kind` is optional; without `nowMs` the
 * scheduler's own clock serves and `maxEarlyMs` does not apply. A kind that the scheduler does not
 * know is treated like `done`. An error, or no answer, means "unknown": the same token asks again.
 */
export interface ClaimOutcome {
  /** What the store decided. */
  kind: ClaimOutcomeKind;
  /** Grants of this run so far; 1 if not given. */
  attempt?: number;
  /** The fencing number of the grant (`won`). */
  fence?: number;
  /** The run's own policy (`won`). */
  maxTakeovers?: number;
  /** The slot of the run in the way (`overlap`), or the slot used (manual runs). */
  slot?: number;
  /** Whether the run in the way is a manual one (`overlap`). */
  manual?: boolean;
  /** Who holds the run, or the run in the way. */
  by?: string;
  /** What is left of that lease (ms); `leaseMs` if not given. */
  leftMs?: number;
  /** The store's clock at the decision (ms). */
  nowMs?: number;
  /** What is left of the earliest lease of the job's other unfinished runs (ms). */
  nextMs?: number;
}

/** A claim, as the history is built from it. */
export interface ClaimRecord {
  /** The slot (ms). */
  slot: number;
  /** The instance that won it. */
  by: string;
  /** When (ms). */
  at: number;
  /** Asked for by hand. */
  manual: boolean;
}

/** What a thrown error leaves in the history. */
export interface RunError {
  /** The class of the error. */
  name: string;
  /** What it says. */
  message: string;
  /** Where it was thrown, up to 8 KiB. */
  stack?: string;
}

/** How a run ended, as a store keeps it. */
export interface StoredResult {
  /** The slot of the run (ms). */
  slot: number;
  /** Asked for by hand. */
  manual: boolean;
  /** The instance that ran it. */
  by: string;
  /** How it ended. */
  status: EndStatus;
  /** When the handler was entered first (ms, the instance's clock). */
  startedAt: number;
  /** When it ended (ms, the instance's clock). */
  endedAt: number;
  /** Grants of the run. */
  attempt?: number;
  /** What the handler threw. */
  error?: RunError;
  /** What the handler returned, as JSON text of at most 8 KiB. */
  output?: string;
  /** The output was longer and has been cut. */
  outputTruncated?: boolean;
  /** The handler ignored its cancellation and may still run. */
  abandoned?: boolean;
}

/** One run, as `history()` shows it. */
export interface RunRecord {
  /** The job's name. */
  job: string;
  /** The slot (ms). */
  slot: number;
  /** Asked for by hand. */
  manual: boolean;
  /** The instance that claimed it last. */
  by: string;
  /** When it was claimed last (ms). */
  at: number;
  /** How it ended, or how it stands. */
  status: RunStatus;
  /** Grants so far: above 1 it has been taken over. */
  attempt?: number;
  /** The fencing number of the last grant. */
  fence?: number;
  /** When the handler was entered (ms). */
  startedAt?: number;
  /** When it ended (ms). */
  endedAt?: number;
  /** How long the handler took (ms). */
  durationMs?: number;
  /** What the handler threw. */
  error?: RunError;
  /** What the handler returned, as JSON text of at most 8 KiB. */
  output?: string;
  /** The output was longer and has been cut. */
  outputTruncated?: boolean;
  /** The handler ignored its cancellation and may still run. */
  abandoned?: boolean;
}

/** What a job will ask of the store. New fields may come with a minor release. */
export interface JobLimits {
  /** The job's name. */
  name: string;
  /** The longest wait before a claim (ms). */
  jitterMs: number;
  /** How late a slot may still be started (ms). */
  maxLateMs: number;
  /** How many ended records to keep. */
  historySize: number;
  /** How long to keep them (ms); for ever, if not given. */
  historyTtlMs?: number;
  /** The length of a lease (ms), on a backend with leases. */
  leaseMs?: number;
  /** Whether runs may overlap, on a backend with leases. */
  overlap?: Overlap;
  /** Which missed slots are made up for, on a backend with leases. */
  catchUp?: CatchUp;
  /** The fingerprint of the schedule. */
  schedule?: string;
  /** Trimming leaves every record younger than this (ms). */
  keepMs?: number;
  /** Trimming leaves so many of the newest scheduled records … */
  keepSlots?: number;
  /** … that are younger than this (ms). */
  keepWindowMs?: number;
  /** The version of the compiled-in time-zone tables. */
  zoneTables?: string;
}

/** An unfinished run. */
export interface ActiveRun {
  /** The slot (ms). */
  slot: number;
  /** Asked for by hand. */
  manual: boolean;
  /** Who holds it, or held it last. */
  by: string;
  /** Grants so far. */
  attempt: number;
  /** What is left of its lease (ms); 0 if it is over. */
  leftMs: number;
  /** The lease is alive. */
  alive: boolean;
}

/** Why slots were missed. */
export type MissedReason =
  | 'no_instance'
  | 'no_place'
  | 'store_down'
  | 'too_late'
  | 'paused'
  | 'dropped';

/** A range of slots that nobody ran. */
export interface MissedRange {
  /** The first of them (ms). */
  from: number;
  /** The last of them (ms). */
  to: number;
  /** How many they are. */
  count: number;
  /** Why. */
  reason: MissedReason;
  /** The instance that reported it. */
  by: string;
  /** When it was reported (ms). */
  at: number;
}

/** Who pauses a job, and why. */
export interface PauseRequest {
  /** The instance that asks. */
  by: string;
  /** Why. */
  reason?: string;
}

/** What a start or a sweep needs to know of a job. */
export interface Survey {
  /** The store's clock (ms). */
  nowMs: number;
  /** The fingerprint in force; empty if the job is not registered. */
  schedule?: string;
  /** When that definition was first registered (ms). */
  since?: number;
  /** The greatest scheduled slot whose record has been trimmed (ms). */
  floor?: number;
  /** Set while no new run may be started. */
  paused?: { since: number; by: string; reason?: string } | null;
  /** The slots of all scheduled records, ascending. */
  slots?: number[];
  /** The unfinished runs. */
  runs?: ActiveRun[];
  /** The ranges already reported as missed. */
  missed?: MissedRange[];
  /** The version of the time-zone tables of whoever registered last. */
  zoneTables?: string;
}

/**
 * The leases of a store. Every method is one atomic step on the job's state, judged by the store's
 * clock; every method may be repeated.
 */
export interface RunStore {
  /** Decides between won, running, done, overlap, none, late, early and paused. */
  claim(input: RunClaim): Promise<ClaimOutcome>;
  /** Moves the lease end forward, only if the stored token matches. */
  heartbeat(job: string, slot: number, token: string, leaseMs: number): Promise<boolean>;
  /** Marks the run ended, only with the matching token; true again when repeated. */
  finish(
    job: string,
    slot: number,
    token: string,
    status: EndStatus,
    result?: StoredResult,
  ): Promise<boolean>;
  /** Ends a live lease now, so that a backup can take over. */
  release(job: string, slot: number, token: string): Promise<boolean>;
  /** The unfinished runs, oldest slot first. Changes nothing. */
  active(job: string): Promise<ActiveRun[]>;

  /** Optional: everything that a start or a sweep needs to know of a job, in one read. */
  survey?(job: string): Promise<Survey>;
  /** Optional: a manual run under a lease; used instead of `recordManualRun` where present. */
  claimManual?(input: ClaimInput): Promise<ClaimOutcome>;
  /** Optional: `finish` stores the result, so `saveResult` is not called after it. */
  readonly keepsResult?: true;
  /** Optional: records a missed range, once for the fleet; false if it was known already. */
  recordMissed?(job: string, range: MissedRange): Promise<boolean>;
  /** Optional: pauses a job, or resumes it with `null`. */
  setPaused?(job: string, paused: PauseRequest | null): Promise<void>;
  /** Optional: ends an unfinished run as `cancelled`, whoever holds it. */
  cancel?(job: string, slot: number, manual: boolean): Promise<boolean>;
  /** Optional: drops the records and the definition of a job; false while a run is unfinished. */
  forget?(job: string): Promise<boolean>;
}

/**
 * A store that the instances share. One rule matters more than everything else: **for one job and
 * one slot, `claim()` returns true for exactly one instance.**
 *
 * Members added later are optional, so a class that implements this interface keeps working.
 */
export interface Backend {
  /** Shown as `scheduler.backend.name`, for example `memory`. */
  readonly name: string;
  /** How long the store remembers a claimed run (ms). `Infinity` if for ever. */
  readonly dedupeWindowMs: number;

  /** Connects and checks the server. Called by `start()` and before reads. */
  init(): Promise<void>;
  /** One-time setup for a job: its table, stream or queue. May be repeated. */
  prepareJob(job: string, historySize: number, limits?: JobLimits): Promise<void>;
  /** True for exactly one instance per slot. Must be safe to repeat with the same token. */
  claim(input: ClaimInput): Promise<boolean>;
  /** Records a manual run, not deduplicated; answers the slot used if it is another one. */
  // biome-ignore lint/suspicious/noConfusingVoidType: the contract allows a method without a result
  recordManualRun(input: ClaimInput): Promise<number | void>;
  /** Stores how a run ended. */
  saveResult(
    job: string,
    result: StoredResult,
    historySize: number,
    historyTtlMs?: number,
  ): Promise<void>;
  /** The latest runs from all instances, newest first. */
  history(job: string, limit: number): Promise<RunRecord[]>;
  /** Closes what the backend opened itself. */
  close(): Promise<void>;

  /** Optional: refuses a job that this backend cannot run safely, by throwing. */
  checkJob?(job: JobLimits): void;
  /** Optional: called after a won claim, if `claim()` itself is not already a history record. */
  recordClaim?(input: ClaimInput): Promise<void>;
  /** Optional: present on backends with leases. */
  readonly runs?: RunStore;
}

/**
 * Merges claims and results into records, for the `history()` of a backend of your own.
 *
 * The newest slot comes first; there is one record per run, and a manual and a scheduled run of the
 * same slot are two. A claim without a result has the status `unfinished`; a result without a claim
 * is shown as well.
 *
 * @param input - `job`: its name; `claims` and `results`: what the store has of it, in any order;
 *   `limit`: how many records to answer at most, a whole number from 0
 * @throws {@link AnarchonError} `INVALID_OPTION` if a claim or a result lacks a field
 *
 * @example
 * ```ts
 * import { buildHistory } from 'anarchon';
 *
 * const claims = [{ slot: 60_000, by: 'a', at: 60_004, manual: false }];
 * const [record] = buildHistory({ job: 'tick', claims, results: [], limit: 20 });
 * console.log(record?.status); // 'unfinished'
 * ```
 */
export function buildHistory(input: {
  job: string;
  claims: readonly ClaimRecord[];
  results: readonly StoredResult[];
  limit: number;
}): RunRecord[] {
  const { job, claims, results, limit } = input;
  const records = calling(() =>
    native.buildHistory(job, encode('claims', claims), encode('results', results), limit),
  );
  return JSON.parse(records) as RunRecord[];
}
