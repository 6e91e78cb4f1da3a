/** The scheduler of one instance. */

import { AsyncResource } from 'node:async_hooks';
import { fromEngine } from './backends';
import { engineOf } from './builtin';
import { clockOf } from './clock';
import { type JobContext, type PlainContext, RunContext } from './context';
import type { ActiveRun, Backend, JobLimits, MissedRange, RunRecord } from './contract';
import { Emitter } from './emitter';
import {
  checkFlag,
  checkName,
  checkNames,
  durationMs,
  encode,
  encodeOptions,
  encodeResult,
  instantMs,
  isThenable,
  show,
} from './encode';
import { AnarchonError, calling } from './errors';
import { line, listenerArguments, type SchedulerEvents } from './events';
import { hostBackend } from './host';
import { chooseLogger, type Log } from './logger';
import { type NativeBackend, type NativeScheduler, native } from './native';
import type { Duration, JobOptions, SchedulerOptions } from './options';
import { type Fault, port, type Target } from './port';
import { unwatchSignals, watchSignals } from './signals';

declare global {
  // As in the library of ESNext, for programs that are compiled for an earlier one.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

/**
 * What a job does. What it returns, or what the promise that it returns resolves to, is kept with
 * the record as JSON; what it throws makes the run `failed` and never stops the scheduler.
 */
export type Handler = (ctx: JobContext) => unknown;

/** How to start. */
export interface StartOptions {
  /** Stop at SIGTERM or SIGINT; a second signal ends the process. Default false. Main thread only. */
  signals?: boolean;
  /** Whether to wait for the store; with `false` it is tried in the background. Default true. */
  wait?: boolean;
}

/** A run, by its identity. */
export interface RunRef {
  /** The job's name. */
  job: string;
  /** The slot (ms). */
  slot: number;
  /** Asked for by hand. */
  manual: boolean;
}

/** What a stop left behind. */
export interface StopReport {
  /** Runs that ended by themselves while stopping. */
  finished: RunRef[];
  /** Runs that were cancelled and given back, for another instance to take over. */
  released: RunRef[];
  /** Runs whose handlers ignore their cancellation; their leases are kept until they end. */
  stillRunning: RunRef[];
}

/** How to run a job by hand. */
export interface RunNowOptions {
  /** The instant that the handler sees (ms, or a Date); default now. */
  slot?: number | Date;
  /** Start although another run of the job is unfinished. Default false. */
  force?: boolean;
  /** Resolve when the run has ended (default), or with `false` as soon as it has been granted. */
  wait?: boolean;
  /** Cancels the run. */
  signal?: AbortSignal;
}

/** Which part of a job's history to read. */
export interface HistoryOptions {
  /** How many entries at most, from 1; default 20. */
  limit?: number;
  /** Whether ranges of missed slots are among them. Default false. */
  missed?: boolean;
}

/** A range of missed slots among the runs of a history. */
export interface MissedEntry {
  /** The range. */
  missed: MissedRange;
}

/** Why a slot did or did not run. */
export interface Explanation {
  /** What became of the slot. */
  outcome:
    | 'ran'
    | 'running'
    | 'skipped'
    | 'lost'
    | 'missed'
    | 'paused'
    | 'not_a_slot'
    | 'not_yet'
    | 'unknown';
  /** Why, as a word. */
  reason: string;
  /** The records of the slot. */
  records: RunRecord[];
  /** All of it as a sentence. */
  text: string;
}

/** A registered job. */
export interface JobInfo {
  /** Its name. */
  name: string;
  /** Its schedule in words. */
  schedule: string;
  /** Its time zone, for cron jobs. */
  timezone?: string;
  /** Whether the store knows it. */
  ready: boolean;
}

interface Registered {
  readonly run: Handler;
  readonly keepOutput: boolean;
}

/**
 * The scheduler of one instance of your application. All instances run the same one; for one job
 * and one slot exactly one of them wins the claim and runs the handler.
 *
 * The constructor touches no loop, file, socket or thread; `start()` does.
 *
 * @example
 * ```ts
 * import { Scheduler } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: 'sqlite:jobs.db' });
 * scheduler.every('tick', '10s', (ctx) => console.log(ctx.scheduledAt.toISOString()));
 * scheduler.cron('report', '0 7 * * MON-FRI', async () => ({ sent: 3 }), {
 *   timezone: 'Europe/Berlin',
 * });
 * await scheduler.start();
 * console.log(await scheduler.runNow('report'));
 * await scheduler.stop();
 * ```
 */
export class Scheduler extends Emitter<SchedulerEvents> {
  readonly #native: NativeScheduler;
  readonly #id: number;
  readonly #target: Target;
  readonly #log: Log;
  readonly #keepAlive: boolean;
  readonly #keepOutput: boolean;
  readonly #given: Backend | undefined;
  readonly #handlers = new Map<number, Registered>();
  /** Asks a user's backend whether it can run a job. */
  readonly #checkJob: ((limits: JobLimits) => void) | undefined;
  #lastHandler = 0;
  #backend: Backend | undefined;
  /** The async context of `start()`, in which handlers and listeners run. */
  #scope: AsyncResource | undefined;
  #held = false;

  /**
   * @param options - all optional; see {@link SchedulerOptions}
   * @throws {@link AnarchonError} `INVALID_OPTION` for an unknown option or a value out of range;
   *   `BACKEND_REQUIRED` where no backend is named and the environment shows an orchestrator
   */
  constructor(options: SchedulerOptions = {}) {
    super();
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      throw new AnarchonError(
        'INVALID_OPTION',
        `the scheduler's options are ${show(options)}; allowed is an object like { backend: 'memory:' }`,
      );
    }
    const { backend, clock, logger, keepAlive = true, ...plain } = options;
    checkFlag('keepAlive', keepAlive);
    this.#keepAlive = keepAlive;
    this.#keepOutput = plain.defaults?.keepOutput !== false;
    this.#log = chooseLogger(logger);

    this.#target = {
      onEvent: (text, fault) => this.#onEvent(text, fault),
      onRun: (run, text) => this.#onRun(run, text),
      onRelease: (handler) => this.#handlers.delete(handler),
    };
    this.#id = port.register(this.#target);
    const source = readBackend(backend);
    this.#given = source.object;
    this.#checkJob = source.checkJob;
    this.#native = calling(
      () =>
        new native.NativeScheduler(
          port.native,
          this.#id,
          encodeOptions('options', plain),
          source.url,
          source.engine,
          clock === undefined ? undefined : clockOf(clock),
        ),
    );
  }

  /**
   * Adds a job that is due every so often: at the multiples of the interval since the Unix epoch,
   * plus `offsetMs`. All instances compute the same slots.
   *
   * @param name - 1 to 255 bytes of UTF-8 without control characters, unique in this scheduler
   * @param interval - at least 100 ms
   * @param handler - what to do
   * @param options - see {@link JobOptions}
   * @throws {@link AnarchonError} `INVALID_SCHEDULE`, `INVALID_OPTION`, `DUPLICATE_JOB`,
   *   `DEDUPE_WINDOW_TOO_SHORT`, `LEASES_REQUIRED`; and what the backend's `checkJob` throws
   *
   * @example
   * ```ts
   * import { Scheduler } from 'anarchon';
   *
   * const scheduler = new Scheduler({ backend: 'memory:' });
   * scheduler.every('clean', '1h30m', () => {}, { timeoutMs: '5m' });
   * ```
   */
  every(name: string, interval: Duration, handler: Handler, options?: JobOptions): this {
    return this.#add(name, 'every', interval, handler, options);
  }

  /**
   * Adds a job with a cron expression: `minute hour day-of-month month day-of-week`, or six fields
   * with the seconds first and `seconds: true`. In the zone `timezone`, default the scheduler's.
   *
   * @param name - 1 to 255 bytes of UTF-8 without control characters, unique in this scheduler
   * @param expression - for example `'0 7 * * MON-FRI'` or `'@daily'`
   * @param handler - what to do
   * @param options - see {@link JobOptions}
   * @throws as {@link Scheduler.every}
   *
   * @example
   * ```ts
   * import { Scheduler } from 'anarchon';
   *
   * const scheduler = new Scheduler({ backend: 'memory:' });
   * scheduler.cron('report', '0 7 * * MON-FRI', () => {}, { timezone: 'Europe/Berlin' });
   * ```
   */
  cron(name: string, expression: string, handler: Handler, options?: JobOptions): this {
    return this.#add(name, 'cron', expression, handler, options);
  }

  /**
   * Adds a job with one slot that is known to every instance. Not a queue of delayed jobs. Where
   * instances disagree about the instant, the first that was registered wins
   * (`definitionConflict`).
   *
   * @param name - 1 to 255 bytes of UTF-8 without control characters, unique in this scheduler
   * @param when - a Date, ms since the Unix epoch, or a text with an offset: `'2027-01-31T09:00:00Z'`
   * @param handler - what to do
   * @param options - see {@link JobOptions}
   * @throws as {@link Scheduler.every}
   *
   * @example
   * ```ts
   * import { Scheduler } from 'anarchon';
   *
   * const scheduler = new Scheduler({ backend: 'memory:' });
   * scheduler.at('migrate', new Date(Date.now() + 60_000), () => {});
   * ```
   */
  at(name: string, when: Date | number | string, handler: Handler, options?: JobOptions): this {
    const instant = when instanceof Date ? when.getTime() : when;
    return this.#add(name, 'at', instant, handler, options);
  }

  #add(name: string, kind: string, when: unknown, handler: Handler, options?: JobOptions): this {
    checkName(name);
    if (typeof handler !== 'function') {
      throw new AnarchonError(
        'INVALID_OPTION',
        `the handler of job ${JSON.stringify(name)} is ${show(handler)}; allowed is a function`,
      );
    }
    const schedule = encode('the schedule', when);
    const given = encodeOptions('options', options);
    if (this.#checkJob !== undefined) {
      const limits = calling(() => this.#native.check(name, kind, schedule, given));
      this.#checkJob(JSON.parse(limits) as JobLimits);
    }
    this.#lastHandler += 1;
    const id = this.#lastHandler;
    const keepOutput = options?.keepOutput ?? this.#keepOutput;
    this.#handlers.set(id, { run: handler, keepOutput });
    port.crossed += 1;
    try {
      const warnings = calling(() => this.#native.add(id, name, kind, schedule, given));
      for (const warning of warnings) {
        this.#log('warn', `job ${JSON.stringify(name)}: ${warning}`, { job: name });
      }
    } catch (error) {
      this.#handlers.delete(id);
      throw error;
    }
    return this;
  }

  /**
   * Removes a job from this instance. A run of it that has begun goes on.
   *
   * @throws {@link AnarchonError} `UNKNOWN_JOB`
   */
  remove(name: string): void {
    checkName(name);
    port.crossed += 1;
    calling(() => this.#native.remove(name));
  }

  /**
   * Starts: connects to the store, registers the jobs and runs what falls due. Handlers and
   * listeners run in the async context of this call (`AsyncLocalStorage`).
   *
   * @param options - see {@link StartOptions}
   * @throws {@link AnarchonError} `BACKEND_UNAVAILABLE` if the store cannot be reached within
   *   `startTimeoutMs`; `BACKEND_REFUSED` and `SCHEMA_TOO_NEW` if what is there breaks the promise;
   *   and what a backend of your own throws, as it is
   */
  async start(options: StartOptions = {}): Promise<void> {
    checkNames('start()', options, ['signals', 'wait']);
    const { signals = false, wait = true } = options;
    checkFlag('signals', signals);
    checkFlag('wait', wait);
    if (signals) watchSignals(this, () => this.#stopBySignal());
    this.#scope = new AsyncResource('anarchon.Scheduler');
    const notice = this.#native.notice();
    if (notice && !this.#held) this.#log('warn', notice);
    this.#hold();
    try {
      await this.#ask((ask) => this.#native.start(ask, wait));
      this.#log('info', `started: ${this.#native.summary()}`, { instanceId: this.instanceId });
    } finally {
      this.#letGoIfStopped();
    }
  }

  /**
   * Stops: claims nothing more, gives handlers `graceMs`, then cancels them and waits at most 5 s
   * more. May be repeated, and the scheduler may be started again. It is also what closes a
   * scheduler that only read.
   *
   * @param options - `graceMs`: how long handlers may go on, at least 0; default 20 s
   * @returns which runs ended, were given back, or still run
   * @throws what the backend's `close` throws
   */
  async stop(options: { graceMs?: Duration } = {}): Promise<StopReport> {
    checkNames('stop()', options, ['graceMs']);
    const graceMs =
      options.graceMs === undefined ? undefined : durationMs('graceMs', options.graceMs);
    try {
      return (await this.#ask((ask) => this.#native.stop(ask, graceMs))) as StopReport;
    } finally {
      this.#letGoIfStopped();
    }
  }

  async #stopBySignal(): Promise<void> {
    try {
      await this.stop();
    } catch (error) {
      this.#log('error', 'an error while stopping at a signal', { error });
    }
  }

  /** Stops at the end of an `await using` block, as {@link Scheduler.stop} does. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /**
   * Waits until the store knows every job.
   *
   * @throws what the store says of a job that it refuses; {@link AnarchonError} `STOPPED`
   */
  async ready(): Promise<void> {
    await this.#ask((ask) => this.#native.ready(ask));
  }

  /**
   * Runs a job here and now.
   *
   * @param name - a job of this scheduler
   * @param options - see {@link RunNowOptions}
   * @returns the record of the run, whatever its status
   * @throws {@link AnarchonError} `OVERLAP`, `UNKNOWN_JOB`, `STOPPED`; and the reason of `signal` if
   *   it was aborted before
   *
   * @example
   * ```ts
   * import { Scheduler } from 'anarchon';
   *
   * const scheduler = new Scheduler({ backend: 'memory:' });
   * scheduler.cron('report', '0 7 * * *', (ctx) => ctx.scheduledAt.toISOString());
   * await scheduler.start();
   * // Make up for a day on which the report was missed.
   * const record = await scheduler.runNow('report', { slot: new Date('2026-03-01T07:00:00Z') });
   * console.log(record.status, record.output);
   * await scheduler.stop();
   * ```
   */
  async runNow(name: string, options: RunNowOptions = {}): Promise<RunRecord> {
    checkName(name);
    checkNames('runNow()', options, ['slot', 'force', 'wait', 'signal']);
    const { force = false, wait = true, signal } = options;
    checkFlag('force', force);
    checkFlag('wait', wait);
    signal?.throwIfAborted();
    const slot = options.slot === undefined ? undefined : instantMs('slot', options.slot);
    this.#scope ??= new AsyncResource('anarchon.Scheduler');
    const { id, answer } = port.askById(
      (ask) => this.#native.runNow(ask, name, slot, force, wait),
      { owner: this },
    );
    const cancel = () => port.giveUp(id);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      return JSON.parse((await answer) ?? 'null') as RunRecord;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /**
   * The latest runs of a job from all instances, newest first. Works without a start.
   *
   * @param name - a job, also one that this scheduler does not have
   * @param options - see {@link HistoryOptions}
   * @throws what the store says
   */
  history(
    name: string,
    options?: HistoryOptions & { missed?: false | undefined },
  ): Promise<RunRecord[]>;
  history(name: string, options: HistoryOptions): Promise<(RunRecord | MissedEntry)[]>;
  async history(name: string, options: HistoryOptions = {}): Promise<(RunRecord | MissedEntry)[]> {
    checkName(name);
    checkNames('history()', options, ['limit', 'missed']);
    const { limit = 20, missed = false } = options;
    checkFlag('missed', missed);
    return (await this.#ask((ask) => this.#native.history(ask, name, Number(limit), missed))) as (
      | RunRecord
      | MissedEntry
    )[];
  }

  /**
   * The unfinished runs of a job from all instances. Works without a start.
   *
   * @throws {@link AnarchonError} `LEASES_REQUIRED`; what the store says
   */
  async active(name: string): Promise<ActiveRun[]> {
    checkName(name);
    return (await this.#ask((ask) => this.#native.active(ask, name))) as ActiveRun[];
  }

  /**
   * Why a slot did or did not run. Works without a start.
   *
   * @param name - a job of this scheduler
   * @param slot - the instant (ms, or a Date)
   * @throws {@link AnarchonError} `UNKNOWN_JOB`; what the store says
   */
  async explain(name: string, slot: number | Date): Promise<Explanation> {
    checkName(name);
    const ms = instantMs('slot', slot);
    return (await this.#ask((ask) => this.#native.explain(ask, name, ms))) as Explanation;
  }

  /**
   * Pauses a job on the whole fleet: nothing new is started, what runs goes on.
   *
   * @param name - the job
   * @param options - `reason`: shown to whoever asks why nothing runs
   * @throws {@link AnarchonError} `LEASES_REQUIRED`; what the store says
   */
  async pause(name: string, options: { reason?: string } = {}): Promise<void> {
    checkName(name);
    checkNames('pause()', options, ['reason']);
    await this.#ask((ask) => this.#native.pause(ask, name, options.reason));
  }

  /**
   * Resumes a job on the whole fleet.
   *
   * @throws {@link AnarchonError} `LEASES_REQUIRED`; what the store says
   */
  async resume(name: string): Promise<void> {
    checkName(name);
    await this.#ask((ask) => this.#native.resume(ask, name));
  }

  /**
   * Cancels unfinished runs of a job, whoever holds them.
   *
   * @param name - the job
   * @param options - `slot`: only the runs of this instant (ms, or a Date); default all
   * @returns how many runs were cancelled
   * @throws {@link AnarchonError} `LEASES_REQUIRED`; what the store says
   */
  async cancel(name: string, options: { slot?: number | Date } = {}): Promise<number> {
    checkName(name);
    checkNames('cancel()', options, ['slot']);
    const slot = options.slot === undefined ? undefined : instantMs('slot', options.slot);
    return (await this.#ask((ask) => this.#native.cancel(ask, name, slot))) as number;
  }

  /**
   * Drops a job's records and definition from the store.
   *
   * @throws {@link AnarchonError} `OVERLAP` while a run is unfinished; `LEASES_REQUIRED`; what the
   *   store says
   */
  async forget(name: string): Promise<void> {
    checkName(name);
    await this.#ask((ask) => this.#native.forget(ask, name));
  }

  /**
   * The next slots of a job, strictly after `from`.
   *
   * @param name - a job of this scheduler
   * @param count - how many, from 0
   * @param from - an instant (ms, or a Date); default now
   * @returns instants (ms since the Unix epoch), ascending; fewer if the job has no more
   * @throws {@link AnarchonError} `UNKNOWN_JOB`
   */
  nextSlots(name: string, count: number, from?: number | Date): number[] {
    checkName(name);
    const after = from === undefined ? undefined : instantMs('from', from);
    return calling(() => this.#native.nextSlots(name, Number(count), after));
  }

  /** The registered jobs, in the order of their registration. */
  get jobs(): JobInfo[] {
    return JSON.parse(this.#native.jobs()) as JobInfo[];
  }

  /** The backend: the object that was given, or the one that the URL named. */
  get backend(): Backend {
    this.#backend ??= this.#given ?? fromEngine(this.#native.backend());
    return this.#backend;
  }

  /** Who this is; drawn by `start()` if it was not given. */
  get instanceId(): string | undefined {
    return this.#native.instanceId() ?? undefined;
  }

  /** Whether it has been started and not stopped. */
  get running(): boolean {
    return this.#native.running();
  }

  // --- the bridge ---------------------------------------------------------------------------------

  async #ask(call: (ask: number) => void): Promise<unknown> {
    const text = await port.ask(call, { owner: this });
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** From here on the process stays alive and the scheduler is not collected. */
  #hold(): void {
    if (this.#held) return;
    this.#held = true;
    port.keep(this.#id, this.#target, true);
    if (this.#keepAlive) port.hold();
  }

  #letGoIfStopped(): void {
    if (!this.#held || this.running) return;
    this.#held = false;
    unwatchSignals(this);
    port.keep(this.#id, this.#target, false);
    if (this.#keepAlive) port.letGo();
  }

  #onRun(id: number, text: string): void {
    const [handler, plain] = JSON.parse(text) as [number, PlainContext];
    const job = this.#handlers.get(handler);
    if (job === undefined) {
      port.fail(id, new AnarchonError('STOPPED', `the handler of job ${plain.job} is gone`));
      return;
    }
    const context = new RunContext(plain, this.#native);
    port.runs.set(id, context);
    const ended = (answer: () => void) => {
      port.runs.delete(id);
      answer();
    };
    const returned = (value: unknown) =>
      ended(() => port.complete(id, job.keepOutput ? this.#output(plain.job, value) : undefined));
    const threw = (error: unknown) => ended(() => port.fail(id, error));

    port.native.entered(id);
    try {
      const value = this.#inScope(() => job.run(context));
      if (isThenable(value)) Promise.resolve(value).then(returned, threw);
      else returned(value);
    } catch (error) {
      threw(error);
    }
  }

  /** The JSON of a return value; one without is said aloud and not kept. */
  #output(job: string, value: unknown): string | undefined {
    try {
      return encodeResult(value);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#log('warn', `job ${JSON.stringify(job)}: the return value is not kept: ${why}`, {
        job,
        error,
      });
      return undefined;
    }
  }

  #onEvent(text: string, fault: Fault): void {
    const [name, payload] = JSON.parse(text) as [keyof SchedulerEvents, object];
    const error = fault?.error;
    const listeners = this.rawListeners(name) as ((...args: unknown[]) => unknown)[];
    if (name !== 'error' || listeners.length === 0) {
      const { level, message, fields } = line(name, payload, error);
      this.#log(level, message, fields);
    }
    const args = listenerArguments(name, payload, error);
    for (const listener of listeners) {
      try {
        const result = this.#inScope(() => listener.apply(this, args));
        if (isThenable(result)) {
          Promise.resolve(result).catch((thrown) => this.#onListenerError(name, thrown));
        }
      } catch (thrown) {
        this.#onListenerError(name, thrown);
      }
    }
  }

  #onListenerError(name: string, error: unknown): void {
    this.#log('error', `a listener of ${JSON.stringify(name)} threw`, { event: name, error });
  }

  #inScope<T>(call: () => T): T {
    return this.#scope === undefined ? call() : this.#scope.runInAsyncScope(call);
  }
}

/** Where runs are claimed, as the native part takes it. */
interface Source {
  url?: string;
  engine?: NativeBackend;
  object?: Backend;
  checkJob?: (limits: JobLimits) => void;
}

function readBackend(backend: unknown): Source {
  if (backend === undefined || backend === null) return {};
  if (typeof backend === 'string') return { url: backend };
  if (backend instanceof URL) return { url: backend.href };
  if (typeof backend !== 'object') {
    throw new AnarchonError(
      'INVALID_OPTION',
      `backend is ${show(backend)}; allowed is a URL like 'sqlite:jobs.db', or a backend object`,
    );
  }
  const object = backend as Backend;
  const ours = engineOf(object);
  // A backend of ours is asked by the native part.
  if (ours !== undefined) return { object, engine: ours };
  const source = { object, engine: hostBackend(object) };
  if (typeof object.checkJob !== 'function') return source;
  return { ...source, checkJob: (limits) => checkJob(object, limits) };
}

function checkJob(backend: Backend, limits: JobLimits): void {
  const answer: unknown = backend.checkJob?.(limits);
  if (!isThenable(answer)) return;
  // Whatever comes of the promise comes too late.
  Promise.resolve(answer).catch(() => {});
  throw new AnarchonError(
    'INVALID_OPTION',
    `${backend.name}: checkJob() returned a promise; it must refuse a job by throwing at once`,
  );
}
