// A store of leases with the optional members too.
import { LeaseStore } from './leases.mjs';

export class WholeStore extends LeaseStore {
  constructor() {
    super();
    Object.assign(this.runs, {
      survey: async (job) => ({
        nowMs: Date.now(),
        since: this.job(job).since,
        slots: [...this.job(job).runs.values()].map((run) => run.slot),
        runs: await this.runs.active(job),
      }),
      setPaused: async () => {},
      cancel: async () => false,
      forget: async () => true,
      claimManual: async (input) => {
        const slot = await this.recordManualRun(input);
        return { kind: 'won', slot };
      },
    });
  }
}

/** The object of a store that has a member, and the member's name: `claim`, `runs.claim`. */
export function at(store, path) {
  const [first, second] = path.split('.');
  return second === undefined ? [store, first] : [store.runs, second];
}

/** Puts another member in the place of one; answers a function that puts the old one back. */
export function replace(store, path, member) {
  const [object, name] = at(store, path);
  const before = object[name];
  object[name] = member;
  return () => {
    object[name] = before;
  };
}
