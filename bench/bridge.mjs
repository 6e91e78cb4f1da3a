// The Node part of `make bench`: one JSON line per figure on standard output.
//
// usage: node bridge.mjs FOLDER
import { fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Scheduler } from 'anarchon';

const folder = process.argv[2];

const tell = (name, value, unit) =>
  console.log(JSON.stringify({ language: 'node', name, value, unit }));

function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.round(share * (sorted.length - 1)), sorted.length - 1)];
}

// The cost of one handler call and of one history() call.
async function calls() {
  const scheduler = new Scheduler({ backend: 'memory:' });
  // The store forgets a run after a second: thousands at once shall not slow each other down.
  const brief = { historySize: 5, leaseMs: 1_000, jitterMs: 0, maxLateMs: 0 };
  scheduler.every('call', '1h', () => {}, brief);
  await scheduler.start();
  const count = 2_000;
  let begin = performance.now();
  for (let call = 0; call < count; call += 1) await scheduler.runNow('call');
  tell('one handler call', ((performance.now() - begin) * 1e3) / count, 'µs');
  begin = performance.now();
  for (let call = 0; call < count; call += 1) await scheduler.history('call', { limit: 1 });
  tell('one history() call', ((performance.now() - begin) * 1e3) / count, 'µs');
  await scheduler.stop();
}

// Ten thousand jobs.
async function many() {
  const scheduler = new Scheduler({ backend: 'memory:' });
  const before = process.memoryUsage.rss();
  let begin = performance.now();
  for (let number = 0; number < 10_000; number += 1) {
    scheduler.every(`job-${number}`, '1h', () => {});
  }
  tell('10,000 jobs: add', performance.now() - begin, 'ms');
  begin = performance.now();
  await scheduler.start();
  await scheduler.ready();
  tell('10,000 jobs: start until ready', performance.now() - begin, 'ms');
  tell('10,000 jobs: memory', (process.memoryUsage.rss() - before) / 2 ** 20, 'MiB');
  await scheduler.stop();
}

/** A backend that does nothing: what is left is the way there and back. */
class Nothing {
  name = 'nothing';
  dedupeWindowMs = Number.POSITIVE_INFINITY;
  // When the first claim of a slot came, when the last one, and how many.
  bursts = new Map();

  async init() {}
  async prepareJob() {}
  async close() {}
  async recordManualRun() {}
  async saveResult() {}

  async claim({ slot }) {
    const now = performance.now();
    const { first, count } = this.bursts.get(slot) ?? { first: now, count: 0 };
    this.bursts.set(slot, { first, last: now, count: count + 1 });
    return false;
  }

  async history() {
    return [];
  }
}

/** The same with the method that is measured as a plain one. */
class PlainNothing extends Nothing {
  history() {
    return [];
  }
}

/** What a call costs that goes through a backend in JavaScript, beside one that does not (µs). */
async function oneCall(backend, jobs) {
  const [count, rounds] = [50, 40];
  const through = new Scheduler({ backend });
  const beside = new Scheduler({ backend: 'memory:' });
  for (let number = 0; number < jobs; number += 1) through.every(`job-${number}`, '1d', () => {});
  for (const scheduler of [through, beside]) {
    await scheduler.start();
    await scheduler.ready();
  }
  const best = new Map([through, beside].map((scheduler) => [scheduler, Number.POSITIVE_INFINITY]));
  // In turn, and the best of each: the round in which nothing else was going on.
  for (let round = 0; round < rounds; round += 1) {
    for (const [scheduler, least] of best) {
      const begin = performance.now();
      for (let call = 0; call < count; call += 1) await scheduler.history('none', { limit: 1 });
      best.set(scheduler, Math.min(least, performance.now() - begin));
    }
  }
  await through.stop();
  await beside.stop();
  return ((best.get(through) - best.get(beside)) * 1e3) / count;
}

// A backend in JavaScript: what one call costs, whether that grows with the number of jobs, and how
// many claims of one instant it answers in a second.
async function host() {
  tell('host backend: one call', await oneCall(new Nothing(), 1), 'µs');
  tell('host backend: one call, 10,000 jobs', await oneCall(new Nothing(), 10_000), 'µs');
  tell('host backend: one call, plain method', await oneCall(new PlainNothing(), 1), 'µs');
  tell('host backend: claims/s', await claimsPerSecond(new Nothing(), 1_000), '/s');
}

/** The best of five slots that all jobs have in common. */
async function claimsPerSecond(backend, jobs) {
  const scheduler = new Scheduler({ backend });
  for (let number = 0; number < jobs; number += 1) {
    scheduler.every(`job-${number}`, '2s', () => {}, { jitterMs: 0 });
  }
  await scheduler.start();
  await scheduler.ready();
  for (;;) {
    await sleep(100);
    const whole = [...backend.bursts.values()].filter(({ count }) => count === jobs);
    if (whole.length < 5) continue;
    await scheduler.stop();
    return ((jobs - 1) * 1e3) / Math.min(...whole.map(({ first, last }) => last - first));
  }
}

const now = () => performance.timeOrigin + performance.now();

// What it would be without a scheduler: a timer, and what a commit costs at least: a synced write.
async function bareTimer() {
  const file = openSync(join(folder, 'timer.log'), 'a');
  const late = [];
  for (let count = 0; count < 100; count += 1) {
    const slot = Math.floor(now() / 100) * 100 + 100;
    await sleep(slot - now());
    writeSync(file, `${slot}\n`);
    fsyncSync(file);
    late.push(now() - slot);
  }
  tell('lateness p50: bare timer and synced write', percentile(late, 0.5), 'ms');
  tell('lateness p99: bare timer and synced write', percentile(late, 0.99), 'ms');
}

// How long after its slot a handler is entered: one job every 100 ms, no jitter.
async function lateness() {
  await bareTimer();
  const late = [];
  const scheduler = new Scheduler({ backend: `sqlite://${join(folder, 'node.db')}` });
  await new Promise((resolve, reject) => {
    const tick = (ctx) => {
      late.push(now() - ctx.slot);
      if (late.length >= 105) resolve();
    };
    scheduler.every('tick', '100ms', tick, { jitterMs: 0 });
    scheduler.start().catch(reject);
  });
  await scheduler.stop();
  tell('lateness p50', percentile(late.slice(5), 0.5), 'ms');
  tell('lateness p99', percentile(late.slice(5), 0.99), 'ms');
}

await calls();
await many();
await host();
await lateness();
