/** A clock for tests. */

import { durationMs, instantMs, show } from './encode';
import { AnarchonError, calling } from './errors';
import { type NativeClock, native } from './native';
import type { Duration } from './options';
import { port } from './port';

const clocks = new WeakMap<object, NativeClock>();

/** The native half of a clock. */
export function clockOf(clock: ManualClock): NativeClock {
  const found = clocks.get(clock);
  if (found !== undefined) return found;
  throw new AnarchonError(
    'INVALID_OPTION',
    `clock is ${show(clock)}; allowed is a ManualClock of anarchon/testing`,
  );
}

/** Turns of the event loop that let what a handler has set in motion go on. */
const TURNS = 3;

async function drain(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * A clock that moves only when told to, for schedulers on `memory:` (a clock without a backend means
 * that) and on backends of your own, which may read it too: `clock.nowMs`. With a store that has a
 * clock of its own it is refused. Several schedulers may share one.
 *
 * @example
 * ```ts
 * import { Scheduler } from 'anarchon';
 * import { ManualClock } from 'anarchon/testing';
 *
 * const clock = new ManualClock();
 * const scheduler = new Scheduler({ clock, logger: false });
 * const seen: string[] = [];
 * scheduler.every('tick', '20m', (ctx) => seen.push(ctx.scheduledAt.toISOString()), { jitterMs: 0 });
 * await scheduler.start();
 * await clock.advance('1h');
 * console.log(seen.length); // 3
 * await scheduler.stop();
 * ```
 */
export class ManualClock {
  readonly #native: NativeClock;
  #advancing: Promise<void> = Promise.resolve();

  /**
   * @param start - what the clock shows at first (ms since the Unix epoch, or a Date); default
   *   2026-01-01T00:00:00Z
   */
  constructor(start?: number | Date) {
    const ms = start === undefined ? undefined : instantMs('start', start);
    this.#native = calling(() => new native.NativeClock(ms));
    clocks.set(this, this.#native);
  }

  /** What the clock shows (ms since the Unix epoch). */
  get nowMs(): number {
    return this.#native.wallMs();
  }

  /**
   * Moves on, from due time to due time. At each it waits until no call to a store is in flight,
   * every due handler was entered and the event loop is drained; it does not wait for handlers.
   *
   * @param duration - at least 0
   */
  advance(duration: Duration): Promise<void> {
    const ms = durationMs('advance()', duration);
    // Two calls at once move on one after the other.
    this.#advancing = this.#advancing.then(() => this.#advance(ms));
    return this.#advancing;
  }

  /**
   * Steps the wall clock alone, as a person or a time service would.
   *
   * @param ms - whole milliseconds, back if negative
   */
  stepWall(ms: number): void {
    calling(() => this.#native.stepWall(ms));
  }

  /** Waits until nothing is going on, without moving on. */
  async settle(): Promise<void> {
    for (;;) {
      await port.ask((ask) => this.#native.settle(port.native, ask));
      const crossed = port.crossed;
      await drain();
      if (port.crossed === crossed && this.#native.isIdle()) return;
    }
  }

  async #advance(ms: number): Promise<void> {
    const target = this.#native.monoMs() + ms;
    do {
      await this.settle();
    } while (this.#native.step(target));
    await this.settle();
  }
}
