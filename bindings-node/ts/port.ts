/**
 * The port: the one bridge between this JavaScript thread and the native side.
 *
 * Promises, handlers and host objects are known to the native side by number. The native side never
 * keeps the process alive; the timer here does, while something is held.
 */

import { AnarchonError, calling, coded, describe } from './errors';
import { type NativePort, native } from './native';

/** What a message is about; the same numbers stand in `src/runtime.rs`. */
const SETTLE = 0;
const EVENT = 1;
const RUN = 2;
const CANCEL = 3;
const CALL = 4;
const RELEASE = 5;

/** Something that went wrong on the native side, on its way to the user. */
export type Fault = { readonly error: unknown } | undefined;

/** An object that the native side sends messages to. */
export interface Target {
  /** A scheduler tells an event: JSON text of `[name, payload]`. */
  onEvent?(text: string, fault: Fault): void;
  /** A scheduler's handler is to be entered: JSON text of `[handler, context]`. */
  onRun?(run: number, text: string): void;
  /** A handler will never be entered again. */
  onRelease?(handler: number): void;
  /** A member of a user's object is to be called: JSON text of `[member, arguments]`. */
  onCall?(call: number, text: string): void;
}

/** A run that may be told to end. */
export interface Cancellable {
  cancel(reason: AnarchonError): void;
}

interface Ask {
  resolve(text: string | undefined): void;
  reject(error: unknown): void;
  held: boolean;
  /** Keeps the scheduler from being collected while somebody waits for it. */
  owner: object | undefined;
}

/** How to ask. */
export interface AskOptions {
  /** Kept from being collected until the answer is there. */
  owner?: object;
  /** Whether the process stays alive for the answer; default true. */
  hold?: boolean;
}

/** The bridge of this thread. */
export class Port {
  readonly native: NativePort;
  /** Runs under way, by number. */
  readonly runs = new Map<number, Cancellable>();
  /** Counts what has crossed in either direction; a manual clock waits until it stands still. */
  crossed = 0;

  private readonly asks = new Map<number, Ask>();
  private readonly targets = new Map<number, WeakRef<Target> | Target>();
  private readonly collected = new FinalizationRegistry<number>((id) => this.targets.delete(id));
  private nextId = 1;
  private held = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor() {
    this.native = new native.NativePort((kind, id, target, text, code, thrown) => {
      this.crossed += 1;
      try {
        this.handle(kind, id, target, text ?? undefined, fault(code ?? undefined, thrown));
      } catch (error) {
        // A throw from here would end the process, so the last resort is to say it.
        console.error('anarchon: a message could not be handled', error);
      }
    });
  }

  private handle(
    kind: number,
    id: number,
    target: number,
    text: string | undefined,
    wrong: Fault,
  ): void {
    switch (kind) {
      case SETTLE: {
        const ask = this.asks.get(id);
        if (ask === undefined) return;
        this.asks.delete(id);
        if (ask.held) this.letGo();
        if (wrong === undefined) ask.resolve(text);
        else ask.reject(wrong.error);
        return;
      }
      case EVENT:
        this.target(target)?.onEvent?.(text ?? 'null', wrong);
        return;
      case RUN: {
        const scheduler = this.target(target);
        if (scheduler?.onRun !== undefined) scheduler.onRun(id, text ?? 'null');
        else this.fail(id, coded('STOPPED', 'the scheduler of this run is gone'));
        return;
      }
      case CANCEL:
        this.runs
          .get(id)
          ?.cancel(
            wrong?.error instanceof AnarchonError
              ? wrong.error
              : coded('CANCELLED', 'the run was cancelled'),
          );
        return;
      case CALL: {
        const object = this.target(target);
        if (object?.onCall !== undefined) object.onCall(id, text ?? 'null');
        else this.fail(id, coded('STOPPED', 'the object that was to be called is gone'));
        return;
      }
      case RELEASE:
        this.target(target)?.onRelease?.(id);
        return;
    }
  }

  /** Asks the native side and awaits its answer: JSON text, or nothing. */
  ask(call: (ask: number) => void, options: AskOptions = {}): Promise<string | undefined> {
    return this.askById(call, options).answer;
  }

  /** As {@link Port.ask}; the number can be given up. */
  askById(
    call: (ask: number) => void,
    { owner, hold = true }: AskOptions = {},
  ): { id: number; answer: Promise<string | undefined> } {
    const id = this.newId();
    this.crossed += 1;
    const answer = new Promise<string | undefined>((resolve, reject) => {
      this.asks.set(id, { resolve, reject, held: hold, owner });
    });
    if (hold) this.hold();
    try {
      calling(() => call(id));
    } catch (error) {
      const ask = this.asks.get(id);
      this.asks.delete(id);
      if (hold) this.letGo();
      ask?.reject(error);
    }
    return { id, answer };
  }

  /** Gives up a promise: it settles soon, and what was asked is cancelled. */
  giveUp(ask: number): void {
    this.crossed += 1;
    this.native.giveUp(ask);
  }

  /** A run or call has returned. */
  complete(id: number, text: string | undefined): void {
    this.crossed += 1;
    this.native.complete(id, text);
  }

  /** A run or call has thrown. */
  fail(id: number, thrown: unknown): void {
    this.crossed += 1;
    const { name, message, stack } = describe(thrown);
    this.native.fail(id, thrown, name, message, stack);
  }

  /** Registers an object by number, without keeping it from being collected. */
  register(target: Target): number {
    const id = this.newId();
    this.targets.set(id, new WeakRef(target));
    this.collected.register(target, id);
    return id;
  }

  /** Keeps a registered object, or leaves it to the collector again. */
  keep(id: number, target: Target, strongly: boolean): void {
    this.targets.set(id, strongly ? target : new WeakRef(target));
  }

  private target(id: number): Target | undefined {
    const found = this.targets.get(id);
    return found instanceof WeakRef ? found.deref() : found;
  }

  private newId(): number {
    // Ids wrap after four billion; those still in use are long settled by then.
    this.nextId = this.nextId >= 0xffff_ffff ? 1 : this.nextId + 1;
    return this.nextId;
  }

  /** Keeps the process alive until {@link Port.letGo} was called as often. */
  hold(): void {
    this.held += 1;
    this.timer ??= setInterval(() => {}, 2 ** 31 - 1);
  }

  /** Undoes one {@link Port.hold}. */
  letGo(): void {
    this.held -= 1;
    if (this.held === 0) {
      clearInterval(this.timer);
      this.timer = undefined;
    }
  }
}

function fault(code: string | undefined, thrown: unknown): Fault {
  if (code === undefined) return undefined;
  return { error: code === '' ? thrown : coded(code, String(thrown)) };
}

// Copies of the package in one thread (bundled twice, or reloaded by a test runner) share one port.
const KEY = Symbol.for('anarchon.port.1');
const globals = globalThis as { [KEY]?: Port };
globals[KEY] ??= new Port();

/** The port of this thread. */
export const port: Port = globals[KEY];
