/** The backends that come with the library, as classes. */

import type {
  ActiveRun,
  Backend,
  ClaimInput,
  ClaimOutcome,
  EndStatus,
  JobLimits,
  MissedRange,
  PauseRequest,
  RunClaim,
  RunRecord,
  RunStore,
  StoredResult,
  Survey,
} from './contract';
import { checkNames, encode, show } from './encode';
import { AnarchonError, calling } from './errors';
import { type NativeBackend, native } from './native';
import { port } from './port';
import { clockOf, type ManualClock } from './testing';

/** Under this name a backend of ours shows its native half; the same in every copy of the package. */
const ENGINE = Symbol.for('anarchon.engine');

/** The native half, whatever a subclass overrides. */
const ENGINE_OF = Symbol('anarchon.native');

/** The members of the contract that a subclass may override. */
const MEMBERS = [
  'init',
  'prepareJob',
  'claim',
  'recordManualRun',
  'saveResult',
  'history',
  'close',
  'checkJob',
  'recordClaim',
] as const;

/**
 * The native half of a backend, if all of its behaviour is ours. A subclass that overrides a member
 * of the contract is called like any other object of the user, so that its member is called.
 */
export function engineOf(backend: object): NativeBackend | undefined {
  const engine = (backend as { [ENGINE]?: () => NativeBackend | undefined })[ENGINE];
  return typeof engine === 'function' ? engine.call(backend) : undefined;
}

/** Set while an object is made around a native half that is there already. */
let adopted: NativeBackend | undefined;

/** The object of a backend that was opened by its URL. */
export function fromEngine(engine: NativeBackend): Backend {
  adopted = engine;
  try {
    return engine.backendName() === 'sqlite' ? new SqliteBackend('') : new MemoryBackend();
  } finally {
    adopted = undefined;
  }
}

/**
 * What all backends of ours have in common: the contract, carried out by the native part. You may
 * call every member, as the scheduler does; a scheduler calls them for you.
 */
export abstract class BuiltInBackend implements Backend {
  /** Shown as `scheduler.backend.name`, for example `memory`. */
  readonly name: string;
  /** How long the store remembers a claimed run (ms): `Infinity` on every store with leases. */
  readonly dedupeWindowMs: number;
  /** The leases of the store. */
  readonly runs: Required<RunStore>;

  readonly #engine: NativeBackend;

  /** @internal */
  constructor(open: () => NativeBackend) {
    this.#engine = adopted ?? calling(open);
    this.name = this.#engine.backendName();
    this.dedupeWindowMs = this.#engine.dedupeWindowMs() ?? Number.POSITIVE_INFINITY;
    this.runs = runStore((member, args) => this.#call(`runs.${member}`, args));
  }

  /** @internal */
  [ENGINE](): NativeBackend | undefined {
    const overridden = MEMBERS.some((member) => this[member] !== BuiltInBackend.prototype[member]);
    return overridden ? undefined : this.#engine;
  }

  /** @internal */
  protected [ENGINE_OF](): NativeBackend {
    return this.#engine;
  }

  async #call(member: string, args: readonly unknown[]): Promise<unknown> {
    const text = await port.ask((ask) =>
      this.#engine.call(port.native, ask, member, encode('arguments', args)),
    );
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Connects and checks the server. May be repeated. */
  async init(): Promise<void> {
    await this.#call('init', []);
  }

  /** Registers a job with its limits. May be repeated. */
  async prepareJob(job: string, historySize: number, limits?: JobLimits): Promise<void> {
    await this.#call('prepareJob', [job, historySize, limits ?? null]);
  }

  /** True for exactly one instance per slot; the same token again is still true. */
  async claim(input: ClaimInput): Promise<boolean> {
    return (await this.#call('claim', [input])) as boolean;
  }

  /** Records a manual run; answers the slot used if it is another one. */
  async recordManualRun(input: ClaimInput): Promise<number | undefined> {
    return ((await this.#call('recordManualRun', [input])) as number | null) ?? undefined;
  }

  /** Does nothing: on these stores the claim is a record already. */
  async recordClaim(input: ClaimInput): Promise<void> {
    await this.#call('recordClaim', [input]);
  }

  /** Stores how a run ended. */
  async saveResult(
    job: string,
    result: StoredResult,
    historySize: number,
    historyTtlMs?: number,
  ): Promise<void> {
    await this.#call('saveResult', [job, result, historySize, historyTtlMs ?? null]);
  }

  /** The latest runs from all instances, newest first. */
  async history(job: string, limit: number): Promise<RunRecord[]> {
    return (await this.#call('history', [job, limit])) as RunRecord[];
  }

  /** Closes what the backend opened itself. May be repeated. */
  async close(): Promise<void> {
    await this.#call('close', []);
  }

  /**
   * Refuses a job that this backend cannot run safely.
   *
   * @throws {@link AnarchonError} with what the store has against it
   */
  checkJob(job: JobLimits): void {
    calling(() => this.#engine.checkJob(encode('limits', job)));
  }
}

type Call = (member: string, args: readonly unknown[]) => Promise<unknown>;

function runStore(call: Call): Required<RunStore> {
  return {
    keepsResult: true,
    claim: async (input: RunClaim) => (await call('claim', [input])) as ClaimOutcome,
    heartbeat: async (job: string, slot: number, token: string, leaseMs: number) =>
      (await call('heartbeat', [job, slot, token, leaseMs])) as boolean,
    finish: async (
      job: string,
      slot: number,
      token: string,
      status: EndStatus,
      result?: StoredResult,
    ) => (await call('finish', [job, slot, token, status, result ?? null])) as boolean,
    release: async (job: string, slot: number, token: string) =>
      (await call('release', [job, slot, token])) as boolean,
    active: async (job: string) => (await call('active', [job])) as ActiveRun[],
    survey: async (job: string) => (await call('survey', [job])) as Survey,
    claimManual: async (input: ClaimInput) => (await call('claimManual', [input])) as ClaimOutcome,
    recordMissed: async (job: string, range: MissedRange) =>
      (await call('recordMissed', [job, range])) as boolean,
    setPaused: async (job: string, paused: PauseRequest | null) => {
      await call('setPaused', [job, paused]);
    },
    cancel: async (job: string, slot: number, manual: boolean) =>
      (await call('cancel', [job, slot, manual])) as boolean,
    forget: async (job: string) => (await call('forget', [job])) as boolean,
  };
}

/** Options of {@link MemoryBackend}. */
export interface MemoryBackendOptions {
  /** Where the store reads its time from; default the machine's clock. */
  clock?: ManualClock;
}

/**
 * A store in memory, with leases, for the schedulers of one process: in tests, and in applications
 * of a single process. Schedulers that share the object share a fleet.
 *
 * @example
 * ```ts
 * import { MemoryBackend, Scheduler } from 'anarchon';
 *
 * const backend = new MemoryBackend();
 * const instances = ['a', 'b'].map((instanceId) => new Scheduler({ backend, instanceId }));
 * ```
 */
export class MemoryBackend extends BuiltInBackend {
  /** @param options - see {@link MemoryBackendOptions} */
  constructor(options: MemoryBackendOptions = {}) {
    checkNames('MemoryBackend', options, ['clock']);
    const clock = options.clock === undefined ? undefined : clockOf(options.clock);
    super(() => native.NativeBackend.memory(clock));
  }
}

/** Options of {@link SqliteBackend}; all but `path` have a default. */
export interface SqliteBackendOptions {
  /** The file, relative to the working directory or absolute. Its directory must exist. */
  path: string;
  /** Keeps applications in one file apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** Connections at most, beside one that is kept for heartbeats, from 1; default 4. */
  pool?: number;
  /** Whether missing tables are created; default true. */
  createTables?: boolean;
  /**
   * When SQLite waits for the disk. `'full'` (default) and `'extra'`: at every commit; `'normal'`:
   * now and then, so that a loss of power may take back the last claims.
   */
  synchronous?: 'full' | 'extra' | 'normal';
  /** How long one attempt waits for another process that writes (ms); default 2000. */
  busyTimeoutMs?: number;
  /** The name of the runs table, 1 to 48 of `a-z 0-9 _`; the others are named after it. */
  table?: string;
  /** How long a call is tried again (ms); default 5000. */
  callTimeoutMs?: number;
  /** Allows a file on a network file system, whose locks cannot be relied on; default false. */
  allowNetwork?: boolean;
}

const SQLITE_OPTIONS: readonly (keyof SqliteBackendOptions)[] = [
  'path',
  'namespace',
  'pool',
  'createTables',
  'synchronous',
  'busyTimeoutMs',
  'table',
  'callTimeoutMs',
  'allowNetwork',
];

/** The URL of a SQLite store with its options; the native part judges them. */
function sqliteUrl({ path, ...options }: SqliteBackendOptions): string {
  if (typeof path !== 'string') {
    throw new AnarchonError(
      'INVALID_OPTION',
      `SqliteBackend: path is ${show(path)}; allowed is the path of a file, like 'jobs.db'`,
    );
  }
  const query = Object.entries(options)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&');
  const escaped = path.replace(/[%?#]/g, encodeURIComponent);
  return `sqlite://${escaped}${query === '' ? '' : `?${query}`}`;
}

/**
 * A store in a SQLite file, with leases, for the processes of one machine.
 *
 * @example
 * ```ts
 * import { Scheduler, SqliteBackend } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: new SqliteBackend('jobs.db') });
 * ```
 */
export class SqliteBackend extends BuiltInBackend {
  /** @param options - the path of the file, or {@link SqliteBackendOptions} */
  constructor(options: string | SqliteBackendOptions) {
    const given = typeof options === 'string' ? { path: options } : options;
    checkNames('SqliteBackend', given, SQLITE_OPTIONS);
    super(() => native.NativeBackend.sqlite(sqliteUrl(given)));
  }

  /**
   * The statements that create the tables, for whoever creates them by hand and says
   * `createTables: false`.
   *
   * @throws {@link AnarchonError} `INVALID_OPTION` on `scheduler.backend` of a scheduler that opened
   *   the store by its URL
   */
  ddl(): string[] {
    const statements = this[ENGINE_OF]().ddl();
    if (statements === null || statements === undefined) {
      throw new AnarchonError(
        'INVALID_OPTION',
        'ddl() of a store that was opened by its URL is not known; call it on new SqliteBackend(…)',
      );
    }
    return statements;
  }
}
