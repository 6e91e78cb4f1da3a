// What a handler may do, and what becomes of it. Cases B02, B03, X01, L07.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { after, before, test } from 'node:test';
import { AnarchonError, MemoryBackend, Scheduler } from 'anarchon';
import { ManualClock } from 'anarchon/testing';

const unhandled = [];
const note = (error) => unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => {
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, [], 'no handler may cause an unhandled rejection');
});

/** A scheduler with one job, started; stopped when the test is over. */
async function running(t, handler, options = {}, more = {}) {
  const scheduler = new Scheduler({ backend: new MemoryBackend(), logger: false, ...more });
  scheduler.every('job', '1h', handler, options);
  await scheduler.start();
  t.after(() => scheduler.stop({ graceMs: 0 }));
  return scheduler;
}

const error = Object.assign(new TypeError('the mail server is away'), { port: 25 });
const bad = {
  'throws at once': () => {
    throw error;
  },
  'returns a rejected promise': () => Promise.reject(error),
  'throws after a turn': async () => {
    await new Promise((resolve) => setImmediate(resolve));
    throw error;
  },
  'returns a thenable that rejects': () => ({
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
    then: (_resolve, reject) => reject(error),
  }),
  'returns a thenable whose then throws': () => ({
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
    get then() {
      throw error;
    },
  }),
};

for (const [what, handler] of Object.entries(bad)) {
  test(`a handler that ${what} makes a failed run with the very error`, async (t) => {
    const scheduler = await running(t, handler);
    const finished = [];
    scheduler.on('finished', (record, thrown) => finished.push([record, thrown]));
    const record = await scheduler.runNow('job');
    assert.equal(record.status, 'failed');
    assert.equal(record.error.name, 'TypeError');
    assert.equal(record.error.message, 'the mail server is away');
    assert.match(record.error.stack, /handlers\.test/);
    assert.equal(finished.length, 1);
    assert.equal(finished[0][0].status, 'failed');
    assert.equal(finished[0][1], error);
    assert.equal((await scheduler.runNow('job')).status, 'failed', 'the next run is started');
  });
}

for (const [what, value, message] of [
  ['a text', 'out of paper', 'out of paper'],
  ['nothing', undefined, 'undefined'],
  [
    'an object that cannot be shown',
    Object.create(null, {
      message: {
        get: () => {
          throw 1;
        },
      },
    }),
    /cannot be shown/,
  ],
  ['a plain object', { code: 7, message: 'seven' }, 'seven'],
]) {
  test(`${what} that is thrown is passed on as it is`, async (t) => {
    const scheduler = await running(t, () => {
      throw value;
    });
    let thrown;
    scheduler.on('finished', (_record, object) => {
      thrown = { object };
    });
    const record = await scheduler.runNow('job');
    assert.equal(record.status, 'failed');
    if (message instanceof RegExp) assert.match(record.error.message, message);
    else assert.equal(record.error.message, message);
    assert.equal(thrown.object, value);
  });
}

for (const [what, value, output] of [
  ['a number', 42, '42'],
  ['an object', { sent: 3 }, '{"sent":3}'],
  ['nothing', undefined, undefined],
  ['a big integer', { rows: 12345678901234567890n }, '{"rows":"12345678901234567890"}'],
  ['a Date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
]) {
  test(`${what} that is returned is kept as JSON`, async (t) => {
    const scheduler = await running(t, () => value);
    const record = await scheduler.runNow('job');
    assert.equal(record.status, 'succeeded');
    assert.equal(record.output, output);
  });
}

test('a return value without a JSON form is said aloud, and the run has succeeded', async (t) => {
  const cyclic = {};
  cyclic.self = cyclic;
  const warnings = [];
  const logger = { debug() {}, info() {}, error() {}, warn: (message) => warnings.push(message) };
  const scheduler = await running(t, () => cyclic, {}, { logger });
  const record = await scheduler.runNow('job');
  assert.equal(record.status, 'succeeded');
  assert.equal(record.output, undefined);
  assert.equal(
    warnings.filter((line) => line.includes('"job"') && line.includes('circular')).length,
    1,
  );
});

test('a long output is cut to 8 KiB and marked', async (t) => {
  const scheduler = await running(t, () => 'x'.repeat(100_000));
  const record = await scheduler.runNow('job');
  assert.equal(record.outputTruncated, true);
  assert.ok(Buffer.byteLength(record.output) <= 8_192);
});

test('keepOutput: false keeps nothing', async (t) => {
  const scheduler = await running(t, () => 'secret', { keepOutput: false });
  assert.equal((await scheduler.runNow('job')).output, undefined);
});

test('X01: of two jobs that share each slot, one that always throws harms neither', async () => {
  const clock = new ManualClock();
  const scheduler = new Scheduler({ clock, logger: false });
  let good = 0;
  scheduler.every('bad', '1m', () => {
    throw new Error('always');
  });
  scheduler.every('good', '1m', () => {
    good += 1;
  });
  await scheduler.start();
  await clock.advance('10m30s');
  const failed = await scheduler.history('bad', { limit: 100 });
  assert.equal(failed.filter((run) => run.status === 'failed').length, failed.length);
  assert.ok(failed.length >= 10, `${failed.length}`);
  assert.equal(good, failed.length);
  await scheduler.stop();
});

test('L07: after a thousand failures the next slot still runs', async () => {
  const clock = new ManualClock();
  const scheduler = new Scheduler({ clock, logger: false, instanceId: 'one' });
  let runs = 0;
  scheduler.every(
    'job',
    '1s',
    (ctx) => {
      runs += 1;
      if (runs % 3 === 0) throw new Error('at once');
      if (runs % 3 === 1) return Promise.reject(new Error('later'));
      // Sleeps until it is cancelled by its time-out.
      return ctx.sleep('1h');
    },
    { jitterMs: 0, timeoutMs: 300 },
  );
  scheduler.on('finished', () => {
    throw new Error('and the listener fails too');
  });
  await scheduler.start();
  await clock.advance('1001s');
  const before = runs;
  assert.ok(before >= 1000, `${before}`);
  await clock.advance('1s');
  assert.equal(runs, before + 1);
  await scheduler.stop();
});

test('handlers run in the async context of start()', async (t) => {
  const storage = new AsyncLocalStorage();
  const scheduler = new Scheduler({ backend: new MemoryBackend(), logger: false });
  t.after(() => scheduler.stop({ graceMs: 0 }));
  const seen = [];
  scheduler.every('job', '1h', async () => {
    seen.push(storage.getStore());
    await new Promise((resolve) => setImmediate(resolve));
    seen.push(storage.getStore());
  });
  scheduler.on('finished', () => seen.push(storage.getStore()));
  await storage.run('start', () => scheduler.start());
  await storage.run('caller', () => scheduler.runNow('job'));
  assert.deepEqual(seen, ['start', 'start', 'start']);
});

test('ctx says what run it is', async (t) => {
  let seen;
  const scheduler = await running(
    t,
    (ctx) => {
      seen = ctx;
    },
    {},
    { instanceId: 'web-1', timezone: 'Europe/Berlin' },
  );
  const slot = Date.UTC(2026, 2, 1, 7);
  await scheduler.runNow('job', { slot: new Date(slot) });
  assert.equal(seen.job, 'job');
  assert.equal(seen.slot, slot);
  assert.equal(seen.scheduledAt.toISOString(), '2026-03-01T07:00:00.000Z');
  assert.equal(seen.instanceId, 'web-1');
  assert.equal(seen.attempt, 1);
  assert.equal(seen.retry, 0);
  assert.ok(seen.fence >= 1);
  assert.match(seen.token, /^[0-9a-f]{32}$/);
  assert.equal(seen.trigger, 'manual');
  assert.equal(seen.manual, true);
  assert.equal(seen.signal.aborted, false);
});

test('a try that takes too long is cancelled with TIMEOUT', async (t) => {
  let reason;
  const scheduler = await running(
    t,
    (ctx) =>
      new Promise((_resolve, reject) => {
        ctx.signal.addEventListener('abort', () => {
          reason = ctx.signal.reason;
          reject(reason);
        });
      }),
    { timeoutMs: 20 },
  );
  const record = await scheduler.runNow('job');
  assert.equal(record.status, 'timed_out');
  assert.ok(reason instanceof AnarchonError);
  assert.equal(reason.code, 'TIMEOUT');
});

test('a signal that is asked for after the end was announced is aborted already', async (t) => {
  let late;
  const scheduler = await running(
    t,
    async (ctx) => {
      await ctx.sleep('1h').catch(() => {});
      late = ctx.signal;
    },
    { timeoutMs: 20 },
  );
  await scheduler.runNow('job');
  assert.equal(late.aborted, true);
  assert.equal(late.reason.code, 'TIMEOUT');
});

test('runNow({ signal }) cancels the run', async (t) => {
  const controller = new AbortController();
  let reason;
  const scheduler = await running(t, async (ctx) => {
    controller.abort();
    await ctx.sleep('1h').catch((thrown) => {
      reason = thrown;
      throw thrown;
    });
  });
  const record = await scheduler.runNow('job', { signal: controller.signal });
  assert.equal(record.status, 'cancelled');
  assert.equal(reason.code, 'CANCELLED');
  await assert.rejects(
    scheduler.runNow('job', { signal: AbortSignal.abort(error) }),
    (thrown) => thrown === error,
  );
});

test('retries are further tries of the same run', async (t) => {
  const tries = [];
  const scheduler = await running(
    t,
    (ctx) => {
      tries.push([ctx.attempt, ctx.retry]);
      if (ctx.retry < 2) throw new Error('not yet');
      return 'at last';
    },
    { retries: { attempts: 3, backoffMs: 1 } },
  );
  const record = await scheduler.runNow('job');
  assert.equal(record.status, 'succeeded');
  assert.deepEqual(tries, [
    [1, 0],
    [1, 1],
    [1, 2],
  ]);
});

test('a run of a removed job goes on with the handler that it began with', async (t) => {
  let release;
  const seen = [];
  const scheduler = await running(
    t,
    () =>
      new Promise((resolve) => {
        release = resolve;
      }),
  );
  const entered = new Promise((resolve) => scheduler.once('started', resolve));
  const run = scheduler.runNow('job');
  await entered;
  scheduler.remove('job');
  scheduler.every('job', '2h', () => seen.push('new'));
  release('old');
  assert.equal((await run).output, '"old"');
  assert.deepEqual(seen, []);
});
