/** Objects of the user whose members the native side calls: backends, run stores, SQL clients. */

import type { Backend } from './contract';
import { encode, isThenable, show } from './encode';
import { AnarchonError, calling } from './errors';
import { type NativeBackend, native } from './native';
import { port, type Target } from './port';

type Method = (...args: unknown[]) => unknown;

/** Calls an object's members by name and sends back what they return or throw. */
export class HostObject implements Target {
  readonly #object: object;

  constructor(object: object) {
    this.#object = object;
  }

  onCall(id: number, text: string): void {
    const [member, args] = JSON.parse(text) as [string, unknown[]];
    // `null` resumes a paused job; elsewhere it stands for what was not given.
    const given = member === 'setPaused' ? args : args.map((arg) => arg ?? undefined);
    answer(id, () => this.call(member, given));
  }

  /** Calls a member. */
  protected call(member: string, args: unknown[]): unknown {
    return ((this.#object as Record<string, unknown>)[member] as Method).apply(this.#object, args);
  }
}

/** Sends back what `call` returns, or what it throws, now or later. */
function answer(id: number, call: () => unknown): void {
  const threw = (error: unknown) => port.fail(id, error);
  const returned = (value: unknown) => {
    let text: string | undefined;
    try {
      text = plain(value);
    } catch (error) {
      threw(error);
      return;
    }
    port.complete(id, text);
  };
  try {
    const value = call();
    if (isThenable(value)) Promise.resolve(value).then(returned, threw);
    else returned(value);
  } catch (error) {
    threw(error);
  }
}

/** JSON text of an answer. What drivers bring back beside plain values is written so that the core reads it. */
function plain(value: unknown): string | undefined {
  return JSON.stringify(value, function (this: Record<string, unknown>, key, part: unknown) {
    if (typeof part === 'bigint') return String(part);
    if (typeof part === 'number' && !Number.isFinite(part)) return String(part);
    // Buffers write themselves as an object before they come here.
    const original = this[key];
    return original instanceof Uint8Array ? new TextDecoder().decode(original) : part;
  });
}

/** The names of all methods of an object, those of its classes included. */
export function methodsOf(object: object): string[] {
  const names = new Set<string>();
  for (
    let level: object | null = object;
    level !== null && level !== Object.prototype;
    level = Object.getPrototypeOf(level)
  ) {
    for (const name of Object.getOwnPropertyNames(level)) names.add(name);
  }
  names.delete('constructor');
  return [...names].filter(
    (name) => typeof (object as Record<string, unknown>)[name] === 'function',
  );
}

/** What messages call an object: its class. */
export function className(object: object): string {
  const name: unknown = object.constructor?.name;
  return typeof name === 'string' && name !== '' && name !== 'Object' ? name : 'the backend';
}

// One native half per object, so that schedulers that share the object initialise it once. The
// targets live as long as the object does.
const known = new WeakMap<Backend, { engine: NativeBackend; targets: Target[] }>();

/** A user's backend as the native side sees it. */
export function hostBackend(backend: Backend): NativeBackend {
  const found = known.get(backend);
  if (found !== undefined) return found.engine;
  const target = new HostObject(backend);
  const runs: unknown = backend.runs ?? undefined;
  if (runs !== undefined && (typeof runs !== 'object' || runs === null)) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `${className(backend)}.runs is ${show(runs)}; allowed is a RunStore, or undefined`,
    );
  }
  const runsTarget = runs === undefined ? undefined : new HostObject(runs);
  const facts = {
    name: backend.name ?? show(backend.name),
    // JSON cannot say Infinity: `null` stands for it.
    dedupeWindowMs:
      backend.dedupeWindowMs === Number.POSITIVE_INFINITY
        ? null
        : (backend.dedupeWindowMs ?? 'undefined'),
    keepsResult: backend.runs?.keepsResult === true,
  };
  const engine = calling(() =>
    native.NativeBackend.host(
      port.native,
      className(backend),
      port.register(target),
      methodsOf(backend),
      runsTarget === undefined ? undefined : port.register(runsTarget),
      runs === undefined ? undefined : methodsOf(runs),
      encode('properties', facts),
    ),
  );
  known.set(backend, {
    engine,
    targets: runsTarget === undefined ? [target] : [target, runsTarget],
  });
  return engine;
}
