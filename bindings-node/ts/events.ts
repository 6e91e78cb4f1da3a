/** What a scheduler tells: nothing that happens to a slot is silent. */

import type { MissedRange, RunRecord } from './contract';
import type { Level } from './logger';

/** What started a run: its slot, a missed slot, the loss of its holder, or a person. */
export type Trigger = 'slot' | 'catch_up' | 'takeover' | 'manual';

/** Which run an event is about. */
export interface RunInfo {
  /** The job's name. */
  job: string;
  /** The slot (ms). */
  slot: number;
  /** Asked for by hand. */
  manual: boolean;
  /** The instance that tells. */
  instanceId: string;
  /** Grants of the run: above 1 it has been taken over. */
  attempt: number;
  /** The fencing number of the grant; 0 on a store without leases. */
  fence: number;
  /** What started it. */
  trigger: Trigger;
}

/** Slots that nobody ran. */
export interface MissedSlots extends MissedRange {
  /** The job's name. */
  job: string;
}

/** A slot that was skipped, because another run was in the way. */
export interface OverlapInfo {
  /** The job's name. */
  job: string;
  /** The slot that was skipped (ms). */
  slot: number;
  /** The slot of the run in the way (ms), if the store tells. */
  otherSlot: number | null;
  /** Whether that one is manual, if the store tells. */
  otherManual: boolean | null;
  /** Who holds it, if the store tells. */
  by: string | null;
}

/** This machine's clock and the store's are apart. */
export interface SkewInfo {
  /** Ours minus the store's (ms). */
  offsetMs: number;
  /** The job that showed it, if one did. */
  job?: string;
}

/** Instances disagree about a job's definition, or about the time-zone tables. */
export interface DefinitionConflict {
  /** The job's name. */
  job: string;
  /** What this instance runs by. */
  ours: string;
  /** What the store says. */
  stored: string;
}

/** A run that is far over its time. */
export interface OverdueInfo extends RunInfo {
  /** For how long the handler has been running (ms). */
  runningMs: number;
}

/**
 * The events of a scheduler, with the arguments of their listeners.
 *
 * @example
 * ```ts
 * import { Scheduler } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: 'memory:' });
 * scheduler.on('finished', (record, error) => {
 *   if (record.status === 'failed') console.log(record.job, error);
 * });
 * scheduler.on('missed', ({ job, count, reason }) => console.log(job, count, reason));
 * scheduler.on('error', (error, { job }) => console.log(job, error));
 * ```
 */
export interface SchedulerEvents {
  /** A run was granted to this instance. */
  won: [run: RunInfo];
  /** Its handler was entered. */
  started: [run: RunInfo];
  /** It ended here: the record as it was stored, and what the handler threw, if it did. */
  finished: [record: RunRecord, error: unknown];
  /** Slots that nobody ran. */
  missed: [slots: MissedSlots];
  /** A slot was skipped, because another run was in the way. */
  overlap: [overlap: OverlapInfo];
  /** A run of another instance was taken over. */
  takeover: [run: RunInfo];
  /** A run was lost to another instance, or its lease could not be kept. */
  leaseLost: [run: RunInfo];
  /** This machine's clock and the store's are apart. */
  skew: [skew: SkewInfo];
  /** Instances disagree about a job. */
  definitionConflict: [conflict: DefinitionConflict];
  /** A run is far over its time. */
  overdue: [run: OverdueInfo];
  /** The store does not answer. */
  storeDown: [info: { message: string }];
  /** The store answers again, after `downMs` (ms). */
  storeUp: [info: { downMs: number }];
  /** An error in the background, as the object it is. Without a listener it is logged. */
  error: [error: unknown, info: { job?: string }];
}

/** The names of all events. */
export const EVENTS: readonly (keyof SchedulerEvents)[] = [
  'won',
  'started',
  'finished',
  'missed',
  'overlap',
  'takeover',
  'leaseLost',
  'skew',
  'definitionConflict',
  'overdue',
  'storeDown',
  'storeUp',
  'error',
];

/** The arguments of a listener, from what crossed the border. */
export function listenerArguments(
  name: keyof SchedulerEvents,
  payload: unknown,
  error: unknown,
): unknown[] {
  if (name === 'error') return [error, payload];
  if (name === 'finished') return [(payload as { record: RunRecord }).record, error];
  return [payload];
}

/** An event as a line of the log. */
export function line(
  name: keyof SchedulerEvents,
  payload: object,
  error: unknown,
): { level: Level; message: string; fields: object } {
  const fields = { event: name, ...payload, ...(error === undefined ? {} : { error }) };
  const [level, message] = sentence(name, payload as Payload);
  return { level, message, fields };
}

type Payload = Partial<
  RunInfo & MissedSlots & OverlapInfo & SkewInfo & DefinitionConflict & OverdueInfo
> & { record?: RunRecord; message?: string; downMs?: number };

function sentence(name: keyof SchedulerEvents, p: Payload): [Level, string] {
  const run = `job ${quote(p.job)}, slot ${instant(p.slot)}`;
  switch (name) {
    case 'won':
      return ['debug', `${run}: won`];
    case 'started':
      return ['debug', `${run}: started`];
    case 'finished':
      return finished(p.record);
    case 'missed':
      return [
        'warn',
        `job ${quote(p.job)}: ${p.count} missed (${p.reason}), ${instant(p.from)} to ${instant(p.to)}`,
      ];
    case 'overlap':
      return ['info', `${run}: skipped, the run of ${instant(p.otherSlot)} is unfinished`];
    case 'takeover':
      return ['warn', `${run}: taken over, attempt ${p.attempt}`];
    case 'leaseLost':
      return ['warn', `${run}: the lease is lost, the handler is cancelled`];
    case 'skew':
      return ['warn', `this machine's clock is ${p.offsetMs} ms ahead of the store's`];
    case 'definitionConflict':
      return ['warn', `job ${quote(p.job)}: runs here by ${p.ours}, in the store by ${p.stored}`];
    case 'overdue':
      return ['warn', `${run}: still running after ${p.runningMs} ms`];
    case 'storeDown':
      return ['error', `the store does not answer: ${p.message}`];
    case 'storeUp':
      return ['warn', `the store answers again after ${p.downMs} ms`];
    case 'error':
      return ['error', p.job === undefined ? 'an error' : `job ${quote(p.job)}: an error`];
  }
}

function finished(record: RunRecord | undefined): [Level, string] {
  const run = `job ${quote(record?.job)}, slot ${instant(record?.slot)}`;
  switch (record?.status) {
    case 'failed':
      return ['error', `${run}: failed`];
    case 'timed_out':
      return ['error', `${run}: timed out after ${record.durationMs} ms`];
    case 'succeeded':
      return ['debug', `${run}: succeeded in ${record.durationMs} ms`];
    default:
      return ['warn', `${run}: ${record?.status}`];
  }
}

function quote(job: string | undefined): string {
  return JSON.stringify(job ?? '');
}

function instant(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? 'unknown' : new Date(ms).toISOString();
}
