/** SIGTERM and SIGINT, for the schedulers that asked for it. */

import { isMainThread } from 'node:worker_threads';
import { AnarchonError } from './errors';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
/** The exit status that a shell gives a process that the signal ended. */
const STATUS = { SIGTERM: 128 + 15, SIGINT: 128 + 2 };

// One listener per signal, however many schedulers there are.
const watching = new Map<object, () => void>();
let stopping = false;

function onSignal(signal: (typeof SIGNALS)[number]): void {
  if (stopping) process.exit(STATUS[signal]);
  stopping = true;
  for (const stop of watching.values()) stop();
}

/** Stops the scheduler at the first signal; a second one ends the process. */
export function watchSignals(scheduler: object, stop: () => void): void {
  if (!isMainThread) {
    throw new AnarchonError(
      'INVALID_OPTION',
      'start({ signals: true }) works in the main thread only, where Node.js receives signals; ' +
        'call stop() from the main thread by a message',
    );
  }
  if (watching.size === 0) {
    stopping = false;
    for (const signal of SIGNALS) process.on(signal, onSignal);
  }
  watching.set(scheduler, stop);
}

/** The scheduler is stopped; without any the signals mean what they meant before. */
export function unwatchSignals(scheduler: object): void {
  if (watching.delete(scheduler) && watching.size === 0) {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}
