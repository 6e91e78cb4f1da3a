/** What the backends that come with the library have in common. */

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
import { encode } from './encode';
import { AnarchonError, calling } from './errors';
import type { NativeBackend } from './native';
import { port } from './port';

/** Under this name a backend of ours shows its native half; the same in every copy of the package. */
const ENGINE = Symbol.for('anarchon.engine');

/** The native half, whatever a subclass overrides. */
const ENGINE_OF = Symbol('anarchon.native');

/** How a member of the native half is called. */
const CALL = Symbol('anarchon.call');

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

/** Makes an object around a native half. */
export function adopt<T>(engine: NativeBackend, make: () => T): T {
  adopted = engine;
  try {
    return make();
  } finally {
    adopted = undefined;
  }
}

/** Opens the native half at once, or takes the one that is there. */
export function opened(open: () => NativeBackend): () => NativeBackend {
  const engine = adopted ?? calling(open);
  return () => engine;
}

/**
 * What all backends of ours have in common: the contract, carried out by the native part. You may
 * call every member, as the scheduler does; a scheduler calls them for you.
 */
export abstract class ClaimsBackend implements Backend {
  /** Shown as `scheduler.backend.name`, for example `memory`. */
  abstract readonly name: string;

  readonly #engine: () => NativeBackend;

  /** @internal */
  constructor(engine: () => NativeBackend) {
    this.#engine = engine;
  }

  /** How long the store remembers a claimed run (ms): `Infinity` on every store with leases. */
  get dedupeWindowMs(): number {
    return this.#engine().dedupeWindowMs() ?? Number.POSITIVE_INFINITY;
  }

  /** @internal */
  [ENGINE](): NativeBackend | undefined {
    const overridden = MEMBERS.some((member) => this[member] !== ClaimsBackend.prototype[member]);
    return overridden ? undefined : this.#engine();
  }

  /** @internal */
  protected [ENGINE_OF](): NativeBackend {
    return this.#engine();
  }

  /** @internal */
  protected async [CALL](member: string, args: readonly unknown[]): Promise<unknown> {
    const text = await port.ask((ask) =>
      this.#engine().call(port.native, ask, member, encode('arguments', args)),
    );
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Connects and checks the server. May be repeated. */
  async init(): Promise<void> {
    await this[CALL]('init', []);
  }

  /** Registers a job with its limits. May be repeated. */
  async prepareJob(job: string, historySize: number, limits?: JobLimits): Promise<void> {
    await this[CALL]('prepareJob', [job, historySize, limits ?? null]);
  }

  /** True for exactly one instance per slot; the same token again is still true. */
  async claim(input: ClaimInput): Promise<boolean> {
    return (await this[CALL]('claim', [input])) as boolean;
  }

  /** Records a manual run; answers the slot used if it is another one. */
  async recordManualRun(input: ClaimInput): Promise<number | undefined> {
    return ((await this[CALL]('recordManualRun', [input])) as number | null) ?? undefined;
  }

  /** Writes a won claim into the history, on stores whose claim is not a record already. */
  async recordClaim(input: ClaimInput): Promise<void> {
    await this[CALL]('recordClaim', [input]);
  }

  /** Stores how a run ended. */
  async saveResult(
    job: string,
    result: StoredResult,
    historySize: number,
    historyTtlMs?: number,
  ): Promise<void> {
    await this[CALL]('saveResult', [job, result, historySize, historyTtlMs ?? null]);
  }

  /** The latest runs from all instances, newest first. */
  async history(job: string, limit: number): Promise<RunRecord[]> {
    return (await this[CALL]('history', [job, limit])) as RunRecord[];
  }

  /** Closes what the backend opened itself. May be repeated. */
  async close(): Promise<void> {
    await this[CALL]('close', []);
  }

  /**
   * Refuses a job that this backend cannot run safely.
   *
   * @throws {@link AnarchonError} with what the store has against it
   */
  checkJob(job: JobLimits): void {
    calling(() => this.#engine().checkJob(encode('limits', job)));
  }
}

/** A backend of ours with leases. */
export abstract class BuiltInBackend extends ClaimsBackend {
  /** The leases of the store. */
  readonly runs: Required<RunStore>;

  /** @internal */
  constructor(engine: () => NativeBackend) {
    super(engine);
    this.runs = runStore((member, args) => this[CALL](`runs.${member}`, args));
  }
}

/** A backend of ours in a SQL database. */
export abstract class BuiltInSqlBackend extends BuiltInBackend {
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
        'ddl() is not known of a store that was opened by its URL; call it on a backend object',
      );
    }
    return statements;
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

/** Opens the native half when it is first needed. */
export function lazily(open: () => NativeBackend): () => NativeBackend {
  let engine: NativeBackend | undefined;
  return () => {
    engine ??= calling(open);
    return engine;
  };
}
