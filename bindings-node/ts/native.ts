/**
 * The private native part: what it offers, and how it is found. Nothing of it is public; it may
 * change with every version.
 */

/** Called for every message from the native side; must not throw. */
export type OnMessage = (
  kind: number,
  id: number,
  target: number,
  text: string | null | undefined,
  code: string | null | undefined,
  thrown: unknown,
) => void;

/** The bridge of one JavaScript thread. */
export interface NativePort {
  complete(id: number, text: string | undefined): void;
  fail(id: number, thrown: unknown, name: string, message: string, stack: string | undefined): void;
  entered(id: number): void;
  giveUp(ask: number): void;
  runBody(ask: number, body: number, target: number, name: string, members: string[]): void;
}

/** A clock that moves when told to. */
export interface NativeClock {
  wallMs(): number;
  monoMs(): number;
  settle(port: NativePort, ask: number): void;
  step(target: number): boolean;
  stepWall(ms: number): void;
  isIdle(): boolean;
}

/** A store of ours. */
export interface NativeBackend {
  backendName(): string;
  offer(port: NativePort): number;
  ddl(): string[] | null;
  hasRuns(): boolean;
  dedupeWindowMs(): number | null;
  checkJob(limits: string): void;
  call(port: NativePort, ask: number, member: string, args: string): void;
}

/** One scheduler. */
export interface NativeScheduler {
  check(name: string, kind: string, schedule: string, options: string): string;
  add(handler: number, name: string, kind: string, schedule: string, options: string): string[];
  remove(name: string): void;
  start(ask: number, wait: boolean): void;
  stop(ask: number, graceMs: number | undefined): void;
  ready(ask: number): void;
  runNow(ask: number, name: string, slot: number | undefined, force: boolean, wait: boolean): void;
  history(ask: number, name: string, limit: number, missed: boolean): void;
  active(ask: number, name: string): void;
  explain(ask: number, name: string, slot: number): void;
  pause(ask: number, name: string, reason: string | undefined): void;
  resume(ask: number, name: string): void;
  cancel(ask: number, name: string, slot: number | undefined): void;
  forget(ask: number, name: string): void;
  sleep(ask: number, ms: number): void;
  nextSlots(name: string, count: number, from: number | undefined): number[];
  jobs(): string;
  running(): boolean;
  instanceId(): string | null;
  backend(): NativeBackend;
  notice(): string | null;
  summary(): string;
}

/** Everything that the native part exports. */
export interface Native {
  NativePort: new (onMessage: OnMessage) => NativePort;
  NativeClock: new (wallMs: number | undefined) => NativeClock;
  NativeBackend: {
    open(url: string, schemes: string[]): NativeBackend;
    memory(clock: NativeClock | undefined): NativeBackend;
    host(
      port: NativePort,
      name: string,
      target: number,
      members: string[],
      runsTarget: number | undefined,
      runsMembers: string[] | undefined,
      facts: string,
    ): NativeBackend;
    hostSql(
      port: NativePort,
      name: string,
      target: number,
      members: string[],
      options: string,
    ): NativeBackend;
  };
  NativeScheduler: new (
    port: NativePort,
    id: number,
    options: string,
    url: string | undefined,
    backend: NativeBackend | undefined,
    clock: NativeClock | undefined,
  ) => NativeScheduler;
  checkNames(what: string, given: string[], known: string[]): void;
  durationMs(name: string, duration: string): number;
  checkBackend(port: NativePort, ask: number, target: number, options: string): void;
  caseNames(): string[];
  buildHistory(job: string, claims: string, results: string, limit: number): string;
}

function load(): Native {
  try {
    return require('../native/anarchon.node') as Native;
  } catch (error) {
    throw new Error(
      `anarchon has no native part that works on ${process.platform}-${process.arch} with ` +
        `Node.js ${process.version}; install the package on the kind of machine that it is to run ` +
        'on (it was built for one platform)',
      { cause: error },
    );
  }
}

/** The native part, loaded once. */
export const native: Native = load();
