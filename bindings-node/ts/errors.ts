/**
 * The stable codes of {@link AnarchonError}, the same in every language.
 *
 * | code | what happened |
 * | --- | --- |
 * | `INVALID_SCHEDULE` | a schedule that cannot be read, or that never has a slot |
 * | `INVALID_OPTION` | an option, name, path or URL that is not allowed |
 * | `DUPLICATE_JOB` | a second job of the same name in one scheduler |
 * | `UNKNOWN_JOB` | no job of this name is registered |
 * | `DEDUPE_WINDOW_TOO_SHORT` | `jitterMs + maxLateMs` is not shorter than the store's memory |
 * | `LEASES_REQUIRED` | an option or a call that needs leases, on a backend without them |
 * | `OVERLAP` | another run of the job is unfinished |
 * | `LEASE_LOST` | the run was lost to another instance, or its lease could not be kept |
 * | `TIMEOUT` | a try took longer than `timeoutMs` |
 * | `CANCELLED` | the run was cancelled by a person or a program |
 * | `BACKEND_REQUIRED` | no backend was named where the embedded default would be wrong |
 * | `BACKEND_UNAVAILABLE` | the store does not answer |
 * | `BACKEND_REFUSED` | the store, or the way it is set up, breaks the promise |
 * | `SCHEMA_TOO_NEW` | the store was written by a newer major version of the library |
 * | `FORKED` | a started scheduler was used in a child process (Python only) |
 * | `STOPPED` | the scheduler is stopped or stopping |
 */
export type ErrorCode =
  | 'INVALID_SCHEDULE'
  | 'INVALID_OPTION'
  | 'DUPLICATE_JOB'
  | 'UNKNOWN_JOB'
  | 'DEDUPE_WINDOW_TOO_SHORT'
  | 'LEASES_REQUIRED'
  | 'OVERLAP'
  | 'LEASE_LOST'
  | 'TIMEOUT'
  | 'CANCELLED'
  | 'BACKEND_REQUIRED'
  | 'BACKEND_UNAVAILABLE'
  | 'BACKEND_REFUSED'
  | 'SCHEMA_TOO_NEW'
  | 'FORKED'
  | 'STOPPED';

const CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_SCHEDULE',
  'INVALID_OPTION',
  'DUPLICATE_JOB',
  'UNKNOWN_JOB',
  'DEDUPE_WINDOW_TOO_SHORT',
  'LEASES_REQUIRED',
  'OVERLAP',
  'LEASE_LOST',
  'TIMEOUT',
  'CANCELLED',
  'BACKEND_REQUIRED',
  'BACKEND_UNAVAILABLE',
  'BACKEND_REFUSED',
  'SCHEMA_TOO_NEW',
  'FORKED',
  'STOPPED',
]);

/**
 * Every error of the library. The `code` is stable and meant for programs; the message says what
 * was given, what is allowed and what to do.
 *
 * Errors thrown by your own code (a handler, a backend, a driver) are never wrapped: they reach
 * you as the objects they are.
 *
 * @example
 * ```ts
 * import { AnarchonError, Scheduler } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: 'memory:' });
 * try {
 *   scheduler.every('tick', '10ms', () => {});
 * } catch (error) {
 *   if (error instanceof AnarchonError && error.code === 'INVALID_SCHEDULE') {
 *     console.log(error.message);
 *   }
 * }
 * ```
 */
export class AnarchonError extends Error {
  /** What happened, as a word that programs may compare. */
  readonly code: ErrorCode;

  /**
   * @param code - one of the stable codes
   * @param message - what was given, what is allowed, what to do
   */
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
// On the prototype, so that it shows in stacks and is no own property of every error.
Object.defineProperty(AnarchonError.prototype, 'name', {
  value: 'AnarchonError',
  configurable: true,
  writable: true,
});

/** An error of ours out of the code and message that crossed the border. */
export function coded(code: string, message: string): AnarchonError {
  return new AnarchonError(code as ErrorCode, message);
}

/** Calls the native side; an error of ours that it throws becomes an {@link AnarchonError}. */
export function calling<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (error instanceof Error && !(error instanceof AnarchonError)) {
      const code = (error as { code?: unknown }).code;
      if (typeof code === 'string' && CODES.has(code)) {
        const ours = coded(code, error.message);
        Error.captureStackTrace(ours, calling);
        throw ours;
      }
    }
    throw error;
  }
}

/** What is to be said of a thrown value, whatever it is; never throws. */
export function describe(thrown: unknown): { name: string; message: string; stack?: string } {
  try {
    if (thrown instanceof Error) {
      const { name, message, stack } = thrown;
      const said = { name: String(name), message: String(message) };
      return typeof stack === 'string' ? { ...said, stack } : said;
    }
    if (typeof thrown === 'object' && thrown !== null) {
      const { name, message } = thrown as { name?: unknown; message?: unknown };
      const kind = typeof name === 'string' ? name : thrown.constructor?.name;
      const said = typeof message === 'string' ? message : String(thrown);
      return { name: String(kind ?? 'object'), message: said };
    }
    return { name: typeof thrown, message: String(thrown) };
  } catch {
    return { name: 'object', message: 'a thrown value that cannot be shown' };
  }
}
