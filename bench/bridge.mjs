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
await lateness();
