/** Objects of the user whose members the native side calls: backends, run stores, SQL clients. */

import type { Backend } from './contract';
import { isThenable } from './encode';
import { AnarchonError } from './errors';
import type { NativeBackend } from './native';
import { port, type Target } from './port';

/** Members whose `null` argument means something; elsewhere it means "not given". */
const NULL_MATTERS = new Set(['setPaused']);

/** Calls an object's members by name and sends back what they return or throw. */
export class HostObject implements Target {
  readonly #object: Record<string, unknown>;

  constructor(object: object) {
    this.#object = object as Record<string, unknown>;
  }

  onCall(id: number, text: string): void {
    const [member, args] = JSON.parse(text) as [string, unknown[]];
    const given = NULL_MATTERS.has(member) ? args : args.map((arg) => arg ?? undefined);
    const threw = (error: unknown) => port.fail(id, error);
    const returned = (value: unknown) => {
      try {
        port.complete(id, JSON.stringify(value));
      } catch (error) {
        threw(error);
      }
    };
    try {
      const method = this.#object[member] as (...args: unknown[]) => unknown;
      const value = method.apply(this.#object, given);
      if (isThenable(value)) Promise.resolve(value).then(returned, threw);
      else returned(value);
    } catch (error) {
      threw(error);
    }
  }
}

/** The names of all methods of an object, its classes included. */
export function methodsOf(object: object): string[] {
  const names = new Set<string>();
  for (
    let at: object | null = object;
    at && at !== Object.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name === 'constructor') continue;
      if (typeof (object as Record<string, unknown>)[name] === 'function') names.add(name);
    }
  }
  return [...names];
}

/** A user's backend as the native side sees it. */
export function hostBackend(_backend: Backend): NativeBackend {
  throw new AnarchonError('INVALID_OPTION', 'backend objects of your own are not supported yet');
}
