/** Plain values on their way to the native side: as JSON text, with nothing lost in silence. */

import { AnarchonError, calling } from './errors';
import { native } from './native';
import type { Duration } from './options';

/**
 * JSON text of what a user gave. What JSON would drop or change in silence (NaN, Infinity, bigint,
 * functions, symbols) becomes a text, so that it is refused by name.
 */
export function encode(what: string, value: unknown): string {
  try {
    return JSON.stringify(value, (_key, part: unknown) => visible(part)) ?? 'null';
  } catch (error) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `${what} cannot be read: ${error instanceof Error ? error.message : String(error)}; ` +
        'allowed are plain values',
    );
  }
}

function visible(part: unknown): unknown {
  switch (typeof part) {
    case 'number':
      return Number.isFinite(part) ? part : String(part);
    case 'bigint':
      return Number.isSafeInteger(Number(part)) ? Number(part) : String(part);
    case 'function':
      return 'a function';
    case 'symbol':
      return String(part);
    default:
      return part;
  }
}

/** JSON text of a user's options: an object, or nothing. */
export function encodeOptions(what: string, options: unknown): string {
  if (options === undefined || options === null) return '{}';
  if (typeof options !== 'object' || Array.isArray(options)) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `${what} is ${show(options)}; allowed is an object like { timeoutMs: '30s' }`,
    );
  }
  return encode(what, options);
}

/** Refuses names that are not among the known ones. */
export function checkNames(what: string, options: object, known: readonly string[]): void {
  calling(() => native.checkNames(what, Object.keys(options), [...known]));
}

/** Milliseconds of a duration. */
export function durationMs(what: string, duration: Duration): number {
  return calling(() => native.durationMs(what, encode(what, duration)));
}

/** Milliseconds since the epoch of an instant given as a number or a Date. */
export function instantMs(what: string, instant: number | Date): number {
  const ms = instant instanceof Date ? instant.getTime() : instant;
  if (typeof ms !== 'number' || !Number.isSafeInteger(ms)) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `${what} is ${show(instant)}; allowed is a Date, or a whole number of ms since the Unix epoch`,
    );
  }
  return ms;
}

/** A name of a job, as far as only JavaScript can judge it. */
export function checkName(name: unknown): asserts name is string {
  if (typeof name !== 'string') {
    throw new AnarchonError('INVALID_OPTION', `the job name is ${show(name)}; allowed is a text`);
  }
  if (/\p{Surrogate}/u.test(name)) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `the job name ${JSON.stringify(name)} has half of a surrogate pair; allowed is valid Unicode`,
    );
  }
}

/** Refuses what is not true or false. */
export function checkFlag(what: string, value: unknown): asserts value is boolean {
  if (typeof value !== 'boolean') {
    throw new AnarchonError(
      'INVALID_OPTION',
      `${what} is ${show(value)}; allowed is true or false`,
    );
  }
}

/** A value as it is shown in a message. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'function':
      return 'a function';
    case 'object': {
      if (value === null) return 'null';
      if (value instanceof Date) return `the Date ${String(value)}`;
      return Array.isArray(value) ? 'an array' : 'an object';
    }
    default:
      return String(value);
  }
}

/** JSON text of what a handler or a user's object returned; nothing for `undefined`. */
export function encodeResult(value: unknown): string | undefined {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'bigint' ? String(part) : part,
  );
}

/** Whether a value has to be awaited. Reading `then` may throw, as everything of a user may. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
