// Leases from a store that a user has written: what becomes of crashes, overlaps, downtime and stops
// is the same as on the store that comes with the library.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MemoryBackend, Scheduler } from 'anarchon';
import { ManualClock } from 'anarchon/testing';
import { LeaseStore } from './stores/leases.mjs';
import { serve } from './stores/remote.mjs';

/** The store of the page, on the fleet's clock. */
class Five extends LeaseStore {
  constructor({ clock }) {
    super(() => clock.nowMs);
  }
}

/** The same with the optional member that tells a start what it has missed. */
class Surveyed extends Five {
  constructor(options) {
    super(options);
    this.runs.survey = async (name) => {
      const job = this.job(name);
      this.settle(job, this.now());
      const scheduled = [...job.runs.values()].filter(({ manual }) => !manual);
      const slots = scheduled.map(({ slot }) => slot).sort((a, b) => a - b);
      const { schedule, since } = job;
      const runs = await this.runs.active(name);
      return { nowMs: this.now(), schedule, since, slots, runs };
    };
  }
}

const MINUTE = 60_000;

/** Replicas on one store and one clock. */
class Fleet {
  constructor(t, Store) {
    this.begin = Date.parse('2026-01-01T00:00:00Z');
    // After the slot that lies there.
    this.clock = new ManualClock(this.begin + 1);
    this.store = new Store({ clock: this.clock });
    this.events = [];
    this.t = t;
  }

  async replica(instanceId, handler, options = {}) {
    const { store: backend, clock } = this;
    const one = new Scheduler({ backend, clock, instanceId, logger: false });
    one.on('error', (error) => this.events.push(['error', String(error)]));
    one.on('missed', ({ count, reason }) => this.events.push(['missed', count, reason]));
    one.on('takeover', ({ slot }) => this.events.push(['takeover', this.minute(slot)]));
    one.every('job', '1m', handler, { jitterMs: 0, leaseMs: '30s', ...options });
    await one.start();
    this.t.after(() => one.stop({ graceMs: 0 }));
    return one;
  }

  minute(slot) {
    return (slot - this.begin) / MINUTE;
  }

  at(minute) {
    return this.clock.advance(this.begin + minute * MINUTE - this.clock.nowMs);
  }

  /** Claims a slot for an instance of which nobody will ever hear again. */
  async crash(minute, maxTakeovers) {
    const slot = this.begin + minute * MINUTE;
    const claim = { job: 'job', slot, token: 'd'.repeat(32), instanceId: 'dead', historySize: 100 };
    const lease = { kind: 'slot', leaseMs: 30_000, overlap: 'allow', maxEarlyMs: 2_000 };
    const outcome = await this.store.runs.claim({ ...claim, ...lease, maxTakeovers });
    assert.equal(outcome.kind, 'won');
  }

  /** The records of scheduled runs, oldest first, in words that do not depend on the clock. */
  async told(one) {
    const records = (await one.history('job')).filter(({ manual }) => !manual);
    const told = ({ slot, status, by, attempt }) => [this.minute(slot), status, by, attempt];
    return { records: records.map(told).reverse(), events: this.events };
  }
}

// A sentence; what happens; what is told afterwards.
const STORIES = [
  [
    'a run whose holder has crashed is taken over when its lease is over',
    async (fleet) => {
      const b = await fleet.replica('b', (ctx) => ctx.attempt);
      await fleet.at(1.999);
      await fleet.crash(2, 2);
      await fleet.at(2.4);
      const before = (await b.active('job')).map(({ by, alive }) => [by, alive]);
      assert.deepEqual(before, [['dead', true]]);
      await fleet.at(2.9);
      return b;
    },
    {
      records: [
        [1, 'succeeded', 'b', 1],
        [2, 'succeeded', 'b', 2],
      ],
      events: [['takeover', 2]],
    },
  ],
  [
    'a run that nobody may take over is lost with its holder, and the next slot runs',
    async (fleet) => {
      const b = await fleet.replica('b', () => {}, { maxTakeovers: 0 });
      await fleet.at(0.999);
      await fleet.crash(1, 0);
      await fleet.at(2.5);
      return b;
    },
    {
      records: [
        [1, 'lost', 'dead', 1],
        [2, 'succeeded', 'b', 1],
      ],
      events: [],
    },
  ],
  [
    'a slot that falls into a run of the same job is skipped, for the whole fleet',
    async (fleet) => {
      const long = (ctx) => ctx.sleep('90s');
      const a = await fleet.replica('a', long);
      await fleet.at(1.1);
      await fleet.replica('b', long);
      await fleet.at(3.5);
      return a;
    },
    {
      records: [
        [1, 'succeeded', 'a', 1],
        [2, 'skipped', undefined, undefined],
        [3, 'running', undefined, 1],
      ],
      events: [],
    },
  ],
  [
    'what was missed is caught up with, up to the limit, and the rest is told once',
    async (fleet) => {
      const options = { catchUp: 'all', catchUpLimit: 3, maxLateMs: '10s' };
      const a = await fleet.replica('a', () => {}, options);
      await fleet.at(2.5);
      await a.stop();
      await fleet.at(9.5);
      const b = await fleet.replica('b', () => {}, options);
      await fleet.at(10.5);
      await b.stop();
      // One that comes later finds nothing left to make up for.
      const c = await fleet.replica('c', () => {}, options);
      await fleet.at(11.5);
      return c;
    },
    {
      records: [
        [1, 'succeeded', 'a', 1],
        [2, 'succeeded', 'a', 1],
        [7, 'succeeded', 'b', 1],
        [8, 'succeeded', 'b', 1],
        [9, 'succeeded', 'b', 1],
        [10, 'succeeded', 'b', 1],
        [11, 'succeeded', 'c', 1],
      ],
      events: [['missed', 4, 'no_instance']],
    },
  ],
  [
    'what is given back at a stop is handed over, and counts as no crash',
    async (fleet) => {
      const until = (ctx) =>
        new Promise((_, reject) => {
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason));
        });
      const options = { leaseMs: '20s', maxTakeovers: 1 };
      const a = await fleet.replica('a', until, options);
      await fleet.at(1.1);
      const b = await fleet.replica('b', (ctx) => ctx.attempt, options);
      const { released } = await a.stop({ graceMs: 0 });
      assert.deepEqual(
        released.map(({ slot }) => fleet.minute(slot)),
        [1],
      );
      await fleet.at(1.6);
      return b;
    },
    { records: [[1, 'succeeded', 'b', 2]], events: [['takeover', 1]] },
  ],
];

for (const [sentence, play, expected] of STORIES) {
  for (const Store of [MemoryBackend, Five, Surveyed]) {
    test(`${sentence} (${Store.name})`, async (t) => {
      const fleet = new Fleet(t, Store);
      const told = await fleet.told(await play(fleet));
      assert.equal(told.records.length, expected.records.length, JSON.stringify(told));
      // Which of two replicas was first is drawn by lot.
      for (const [index, [, , by]] of expected.records.entries()) {
        if (by === undefined) told.records[index][2] = undefined;
      }
      assert.deepEqual(told, expected);
    });
  }
}

const HOLDER = fileURLToPath(new URL('stores/holder.mjs', import.meta.url));

for (const signal of ['SIGKILL', 'SIGTERM']) {
  test(`the run of a process that ends by ${signal} is taken over, on real leases`, async (t) => {
    const store = new LeaseStore();
    const slot = Date.now() + 500;
    const child = fork(HOLDER, [String(slot)]);
    t.after(() => child.kill('SIGKILL'));
    serve(child, store);
    const ended = once(child, 'exit');
    await new Promise((resolve) => child.on('message', ({ entered }) => entered && resolve()));
    const [held] = await store.runs.active('job');
    assert.deepEqual([held.by, held.slot, held.attempt, held.alive], ['child', slot, 1, true]);
    child.kill(signal);
    assert.deepEqual(await ended, signal === 'SIGKILL' ? [null, 'SIGKILL'] : [0, null]);
    const crashes = () => [...store.job('job').runs.values()].map((run) => run.crashes);
    const one = new Scheduler({ backend: store, instanceId: 'parent', logger: false });
    t.after(() => one.stop({ graceMs: 0 }));
    one.at('job', slot, (ctx) => ctx.attempt, { jitterMs: 0, leaseMs: '1s' });
    const finished = once(one, 'finished');
    await one.start();
    const [record] = await finished;
    assert.deepEqual(
      [record.slot, record.status, record.by, record.attempt, record.output],
      [slot, 'succeeded', 'parent', 2, '2'],
    );
    // A stop gives back what it held; only a crash counts as one.
    assert.deepEqual(crashes(), [signal === 'SIGKILL' ? 1 : 0]);
  });
}
