// A store in another process: what a child calls is carried to the store of its parent.
const MEMBERS = ['init', 'prepareJob', 'claim', 'recordManualRun', 'saveResult', 'history'];
const LEASES = ['claim', 'heartbeat', 'finish', 'release', 'active'];

/** The store of the parent process, in a child. */
export class RemoteStore {
  name = 'remote';
  dedupeWindowMs = Number.POSITIVE_INFINITY;
  runs = {};
  waiting = new Map();
  asked = 0;

  constructor() {
    for (const member of MEMBERS) this[member] = (...args) => this.ask('store', member, args);
    for (const member of LEASES) this.runs[member] = (...args) => this.ask('runs', member, args);
    process.on('message', ({ id, value }) => {
      this.waiting.get(id)?.(value);
      this.waiting.delete(id);
    });
  }

  /** Lets the process end. */
  close() {
    process.disconnect();
  }

  ask(part, member, args) {
    this.asked += 1;
    process.send({ id: this.asked, part, member, args });
    return new Promise((resolve) => this.waiting.set(this.asked, resolve));
  }
}

/** Answers what a child asks of the store. */
export function serve(child, store) {
  child.on('message', async ({ id, part, member, args }) => {
    if (id === undefined) return;
    const value = await (part === 'runs' ? store.runs : store)[member](...args);
    if (child.connected) child.send({ id, value });
  });
}
