// The calls of a scheduler that are about the store and the fleet.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { AnarchonError, MemoryBackend, Scheduler, SqliteBackend } from 'anarchon';
import { ManualClock } from 'anarchon/testing';
import { folder } from './program.mjs';

/** A record without what the store's clock and the instance's may see apart by a millisecond. */
const timeless = ({ at: _at, endedAt: _endedAt, ...record }) => record;

const quiet = (options) => new Scheduler({ logger: false, ...options });

test('start, run, read and stop on a SQLite file', async (t) => {
  const backend = new SqliteBackend(join(folder(t), '100% #1?.db'));
  const scheduler = quiet({ backend, instanceId: 'a' });
  scheduler.every('job', '1h', (ctx) => ctx.instanceId);
  assert.equal(scheduler.running, false);
  await scheduler.start();
  assert.equal(scheduler.running, true);
  await scheduler.ready();
  assert.deepEqual(
    scheduler.jobs.map((job) => [job.name, job.ready]),
    [['job', true]],
  );
  const record = await scheduler.runNow('job', { slot: 1_000_000 });
  assert.deepEqual([record.slot, record.by, record.output], [1_000_000, 'a', '"a"']);
  assert.deepEqual((await scheduler.history('job')).map(timeless), [timeless(record)]);
  assert.deepEqual(await scheduler.active('job'), []);
  const report = await scheduler.stop();
  assert.deepEqual(report, { finished: [], released: [], stillRunning: [] });
  assert.equal(scheduler.running, false);
});

test('a scheduler that was never started reads what others did', async (t) => {
  const url = `sqlite:${join(folder(t), 'jobs.db')}`;
  const writer = quiet({ backend: url });
  writer.every('job', '1h', () => {});
  await writer.start();
  const record = await writer.runNow('job');
  await writer.stop();
  const reader = quiet({ backend: url });
  assert.deepEqual((await reader.history('job')).map(timeless), [timeless(record)]);
  await reader.stop();
});

test('a scheduler can be started again', async () => {
  const scheduler = quiet({ backend: new MemoryBackend() });
  scheduler.every('job', '1h', () => 'again');
  for (let round = 0; round < 3; round += 1) {
    await scheduler.start();
    assert.equal((await scheduler.runNow('job')).output, '"again"');
    await scheduler.stop();
  }
});

test('the instance id is drawn by start()', async () => {
  const scheduler = quiet({ backend: new MemoryBackend() });
  assert.equal(scheduler.instanceId, undefined);
  await scheduler.start();
  assert.match(scheduler.instanceId, new RegExp(`:${process.pid}:`));
  await scheduler.stop();
});

test('runNow refuses an overlap, unless forced', async () => {
  const scheduler = quiet({ backend: new MemoryBackend() });
  const releases = [];
  scheduler.every('job', '1h', () => new Promise((resolve) => releases.push(resolve)));
  await scheduler.start();
  const first = await scheduler.runNow('job', { wait: false });
  assert.equal(first.status, 'running');
  await assert.rejects(
    scheduler.runNow('job'),
    (error) => error instanceof AnarchonError && error.code === 'OVERLAP',
  );
  const second = await scheduler.runNow('job', { wait: false, force: true });
  assert.equal((await scheduler.active('job')).length, 2);
  assert.notEqual(second.slot, first.slot);
  while (releases.length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const release of releases) release();
  const report = await scheduler.stop();
  assert.equal(report.stillRunning.length, 0);
});

test('runNow of a stopped scheduler, and of a job that is not there, is refused', async () => {
  const scheduler = quiet({ backend: new MemoryBackend() });
  scheduler.every('job', '1h', () => {});
  await scheduler.start();
  await assert.rejects(scheduler.runNow('other'), { code: 'UNKNOWN_JOB' });
  await scheduler.stop();
  await assert.rejects(scheduler.runNow('job'), { code: 'STOPPED' });
});

test('a handler that heeds its cancellation is released by stop()', async () => {
  const scheduler = quiet({ clock: undefined, backend: new MemoryBackend() });
  let reason;
  scheduler.every(
    'job',
    '100ms',
    (ctx) =>
      ctx.sleep('1h').catch((thrown) => {
        reason = thrown;
        throw thrown;
      }),
    { jitterMs: 0 },
  );
  const started = new Promise((resolve) => scheduler.once('started', resolve));
  await scheduler.start();
  const { slot } = await started;
  const report = await scheduler.stop({ graceMs: 0 });
  assert.deepEqual(report.released, [{ job: 'job', slot, manual: false }]);
  assert.equal(reason.code, 'STOPPED');
});

test('pause, resume, explain, cancel and forget act through the store', async () => {
  const clock = new ManualClock();
  const backend = new MemoryBackend({ clock });
  const [one, two] = ['a', 'b'].map((instanceId) => quiet({ backend, clock, instanceId }));
  let runs = 0;
  for (const scheduler of [one, two]) {
    scheduler.every(
      'job',
      '1m',
      async (ctx) => {
        runs += 1;
        await ctx.sleep('10s');
      },
      { jitterMs: 0, overlap: 'allow' },
    );
    await scheduler.start();
  }
  await clock.advance('30s');
  runs = 0;
  await one.pause('job', { reason: 'holiday' });
  const missed = [];
  for (const scheduler of [one, two]) scheduler.on('missed', (slots) => missed.push(slots));
  await clock.advance('3m');
  assert.equal(runs, 0);
  const why = await two.explain('job', clock.nowMs - 30_000);
  assert.match(why.text, /paused/);
  await two.resume('job');
  await clock.advance('35s');
  assert.equal(runs, 1);
  const [active] = await one.active('job');
  assert.equal(await two.cancel('job', { slot: active.slot }), 1);
  assert.deepEqual(await one.active('job'), []);
  await clock.advance('11s');
  await one.forget('job');
  assert.deepEqual(await two.history('job'), []);
  await one.stop();
  await two.stop();
  assert.ok(missed.length > 0 && missed.every((slots) => slots.job === 'job'));
});

test('await using stops a scheduler', async () => {
  const scheduler = quiet({ backend: new MemoryBackend() });
  await scheduler.start();
  await scheduler[Symbol.asyncDispose]();
  assert.equal(scheduler.running, false);
});

test('scheduler.backend is the object that was given, or one for the URL', async () => {
  const backend = new MemoryBackend();
  assert.equal(quiet({ backend }).backend, backend);
  const opened = quiet({ backend: 'memory:' }).backend;
  assert.ok(opened instanceof MemoryBackend);
  assert.equal(opened.name, 'memory');
  assert.equal(opened.dedupeWindowMs, Number.POSITIVE_INFINITY);
});

test('the namespace of a URL or of an object counts, unless the scheduler names one', async (t) => {
  const path = join(folder(t), 'jobs.db');
  const runs = async (options) => {
    const scheduler = quiet(options);
    const { length } = await scheduler.history('job');
    await scheduler.stop();
    return length;
  };
  for (const options of [
    { backend: `sqlite:${path}?namespace=one` },
    { backend: new SqliteBackend({ path, namespace: 'two' }) },
    { backend: `sqlite:${path}?namespace=one`, namespace: 'three' },
  ]) {
    const scheduler = quiet(options);
    scheduler.every('job', '1h', () => {});
    await scheduler.start();
    await scheduler.runNow('job');
    await scheduler.stop();
  }
  for (const [namespace, count] of Object.entries({ one: 1, two: 1, three: 1, default: 0 })) {
    assert.equal(await runs({ backend: `sqlite:${path}`, namespace }), count, namespace);
  }
});
