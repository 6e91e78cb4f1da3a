/** Node's EventEmitter with the names and arguments of our events. */

import { EventEmitter } from 'node:events';
import { calling } from './errors';
import { EVENTS } from './events';
import { native } from './native';

/** A listener of the event `Name`. */
export type Listener<Events, Name extends keyof Events> = Events[Name] extends unknown[]
  ? (...args: Events[Name]) => unknown
  : never;

/**
 * The methods of Node's `EventEmitter`, which every object of this type is. Listeners run in the
 * order in which they were added. One that throws, or whose promise rejects, is logged and harms
 * nothing.
 */
export interface Emitter<Events> {
  /** Adds a listener. */
  on<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** Adds a listener that is called at most once. */
  once<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** Removes a listener. */
  off<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** As `on`. */
  addListener<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** As `off`. */
  removeListener<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** Removes all listeners, or all of one event. */
  removeAllListeners(name?: keyof Events): this;
  /** Adds a listener before the others. */
  prependListener<Name extends keyof Events>(name: Name, listener: Listener<Events, Name>): this;
  /** Adds a listener before the others that is called at most once. */
  prependOnceListener<Name extends keyof Events>(
    name: Name,
    listener: Listener<Events, Name>,
  ): this;
  /** The listeners of an event. */
  listeners<Name extends keyof Events>(name: Name): Listener<Events, Name>[];
  /** The listeners of an event, wrappers of `once` included. */
  rawListeners<Name extends keyof Events>(name: Name): Listener<Events, Name>[];
  /** How many listeners an event has. */
  listenerCount(name: keyof Events): number;
  /** The events that have listeners. */
  eventNames(): (keyof Events)[];
  /** From how many listeners of one event on Node.js warns of a leak; 0 for never. */
  setMaxListeners(count: number): this;
  /** That number. */
  getMaxListeners(): number;
}

type AnyListener = (...args: unknown[]) => void;

/** Refuses a listener of an event that never comes. */
class CheckedEmitter extends EventEmitter {
  override on(name: string | symbol, listener: AnyListener): this {
    check(name);
    return super.on(name, listener);
  }

  override addListener(name: string | symbol, listener: AnyListener): this {
    check(name);
    return super.addListener(name, listener);
  }

  override prependListener(name: string | symbol, listener: AnyListener): this {
    check(name);
    return super.prependListener(name, listener);
  }
}

function check(name: string | symbol): void {
  // Node's own events about listeners, and its monitor of errors.
  if (typeof name === 'symbol' || name === 'newListener' || name === 'removeListener') return;
  calling(() => native.checkNames('on()', [name], [...EVENTS]));
}

/** The base class; typed without Node's types, so that programs need not have them. */
export const Emitter = CheckedEmitter as unknown as new <Events>() => Emitter<Events>;
