/** The store in memory. */

import { BuiltInBackend, opened } from './builtin';
import { clockOf, type ManualClock } from './clock';
import { checkNames } from './encode';
import { native } from './native';

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
  readonly name: string = 'memory';

  /** @param options - see {@link MemoryBackendOptions} */
  constructor(options: MemoryBackendOptions = {}) {
    checkNames('MemoryBackend', options, ['clock']);
    const clock = options.clock === undefined ? undefined : clockOf(options.clock);
    super(opened(() => native.NativeBackend.memory(clock)));
  }
}
