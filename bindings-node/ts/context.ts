/** What a handler gets. */

import { durationMs } from './encode';
import type { AnarchonError } from './errors';
import type { Trigger } from './events';
import type { NativeScheduler } from './native';
import type { Duration } from './options';
import { type Cancellable, port } from './port';

/**
 * Everything that a handler may know about its run.
 *
 * @example
 * ```ts
 * import { Scheduler } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: 'memory:' });
 * scheduler.every('sync', '5m', async (ctx) => {
 *   const response = await fetch('https://example.com/feed', { signal: ctx.signal });
 *   return { bytes: (await response.text()).length };
 * });
 * ```
 */
export interface JobContext {
  /** The job's name. */
  readonly job: string;
  /** The instant that the run stands for (ms since the Unix epoch). */
  readonly slot: number;
  /** The same instant as a Date. */
  readonly scheduledAt: Date;
  /** The time zone of the job. */
  readonly timezone: string;
  /** Who runs it. */
  readonly instanceId: string;
  /** Grants of this run: above 1 it has been taken over. */
  readonly attempt: number;
  /** Tries by this holder before this one, from 0. */
  readonly retry: number;
  /**
   * Grows with every grant of the job: a downstream store that remembers the greatest one can refuse
   * a holder that was replaced. 0 on a store without leases.
   */
  readonly fence: number;
  /** The holder's token, 128 bits in hex. */
  readonly token: string;
  /** What started it. */
  readonly trigger: Trigger;
  /** Asked for by hand. */
  readonly manual: boolean;
  /**
   * Aborted when the run is to end; its `reason` is an {@link AnarchonError} with the code `TIMEOUT`,
   * `LEASE_LOST`, `STOPPED` or `CANCELLED`.
   */
  readonly signal: AbortSignal;
  /**
   * Sleeps on the scheduler's clock.
   *
   * @param duration - at least 0
   * @throws the reason of {@link JobContext.signal} as soon as the run is to end
   */
  readonly sleep: (duration: Duration) => Promise<void>;
}

/** What crosses the border of a run. */
export type PlainContext = Omit<JobContext, 'scheduledAt' | 'signal' | 'sleep'>;

/** The context of one try. */
export class RunContext implements JobContext, Cancellable {
  readonly job: string;
  readonly slot: number;
  readonly scheduledAt: Date;
  readonly timezone: string;
  readonly instanceId: string;
  readonly attempt: number;
  readonly retry: number;
  readonly fence: number;
  readonly token: string;
  readonly trigger: Trigger;
  readonly manual: boolean;
  readonly sleep: (duration: Duration) => Promise<void>;

  #controller: AbortController | undefined;
  #reason: AnarchonError | undefined;
  readonly #sleepers = new Set<(reason: AnarchonError) => void>();

  constructor(plain: PlainContext, native: NativeScheduler) {
    this.job = plain.job;
    this.slot = plain.slot;
    this.scheduledAt = new Date(plain.slot);
    this.timezone = plain.timezone;
    this.instanceId = plain.instanceId;
    this.attempt = plain.attempt;
    this.retry = plain.retry;
    this.fence = plain.fence;
    this.token = plain.token;
    this.trigger = plain.trigger;
    this.manual = plain.manual;
    this.sleep = (duration) => {
      const sleeping = this.#sleep(native, duration);
      // A sleep that nobody awaits must not end the process when the run is cancelled.
      sleeping.catch(() => {});
      return sleeping;
    };
  }

  /** Made when it is asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  cancel(reason: AnarchonError): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    for (const wake of this.#sleepers) wake(reason);
    this.#sleepers.clear();
    this.#controller?.abort(reason);
  }

  async #sleep(native: NativeScheduler, duration: Duration): Promise<void> {
    const ms = durationMs('sleep()', duration);
    if (this.#reason !== undefined) throw this.#reason;
    // The scheduler keeps the process alive while the handler runs, if it is meant to.
    const { id, answer } = port.askById((ask) => native.sleep(ask, ms), { hold: false });
    let wake: (reason: AnarchonError) => void = () => {};
    const cancelled = new Promise<never>((_resolve, reject) => {
      wake = (reason) => {
        reject(reason);
        port.giveUp(id);
      };
    });
    this.#sleepers.add(wake);
    try {
      await Promise.race([answer, cancelled]);
    } finally {
      this.#sleepers.delete(wake);
    }
  }
}
