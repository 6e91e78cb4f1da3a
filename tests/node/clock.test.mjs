// Time that moves when told to. Case K01.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryBackend, Scheduler } from 'anarchon';
import { ManualClock } from 'anarchon/testing';

test('K01: a month without a slot is slept through, and the slot is hit', async () => {
  const warnings = [];
  const note = (warning) => warnings.push(warning.name);
  process.on('warning', note);
  const clock = new ManualClock(new Date('2026-01-01T00:00:00.001Z'));
  const scheduler = new Scheduler({ clock, logger: false });
  const seen = [];
  scheduler.cron('monthly', '0 0 1 * *', (ctx) => seen.push(ctx.scheduledAt.toISOString()), {
    jitterMs: 0,
  });
  await scheduler.start();
  await clock.advance(2_678_399_998);
  assert.deepEqual(seen, []);
  await clock.advance(1);
  assert.deepEqual(seen, ['2026-02-01T00:00:00.000Z']);
  await scheduler.stop();
  process.off('warning', note);
  assert.deepEqual(warnings, []);
});

test('advance() goes from due time to due time', async () => {
  const clock = new ManualClock();
  const scheduler = new Scheduler({ clock, logger: false });
  const seen = [];
  scheduler.every(
    'tick',
    '20m',
    () => seen.push(new Date(clock.nowMs).toISOString().slice(11, 19)),
    {
      jitterMs: 0,
    },
  );
  await scheduler.start();
  await clock.advance('1h');
  assert.deepEqual(seen.slice(-3), ['00:20:00', '00:40:00', '01:00:00']);
  await scheduler.stop();
});

test('advance() does not wait for handlers, and ctx.sleep() sleeps on the clock', async () => {
  const clock = new ManualClock();
  const scheduler = new Scheduler({ clock, logger: false });
  const seen = [];
  scheduler.at(
    'long',
    clock.nowMs + 60_000,
    async (ctx) => {
      seen.push('begins');
      await ctx.sleep('10m');
      seen.push('ends');
    },
    { jitterMs: 0 },
  );
  await scheduler.start();
  await clock.advance('1m');
  assert.deepEqual(seen, ['begins']);
  await clock.advance('9m');
  assert.deepEqual(seen, ['begins']);
  await clock.advance('1m');
  assert.deepEqual(seen, ['begins', 'ends']);
  await scheduler.stop();
});

test('a sleep of a cancelled run ends at once with the reason', async () => {
  const clock = new ManualClock();
  const scheduler = new Scheduler({ clock, logger: false });
  let reason;
  scheduler.at(
    'long',
    clock.nowMs + 60_000,
    async (ctx) => {
      // A sleep that nobody awaits must not become an unhandled rejection.
      ctx.sleep('2h');
      await ctx.sleep('1h').catch((thrown) => {
        reason = thrown;
      });
    },
    { jitterMs: 0, timeoutMs: '30s' },
  );
  await scheduler.start();
  await clock.advance('90s');
  assert.equal(reason.code, 'TIMEOUT');
  await clock.advance('1s');
  assert.equal((await scheduler.history('long'))[0].status, 'timed_out');
  await scheduler.stop();
});

test('several schedulers share one clock and one store, and each slot runs once', async () => {
  const clock = new ManualClock();
  const backend = new MemoryBackend({ clock });
  const slots = [];
  const replicas = ['a', 'b', 'c'].map(
    (instanceId) => new Scheduler({ backend, clock, instanceId, logger: false }),
  );
  for (const replica of replicas) {
    replica.every('tick', '1m', (ctx) => slots.push(ctx.slot));
    await replica.start();
  }
  await clock.advance('30m');
  for (const replica of replicas) await replica.stop();
  assert.equal(new Set(slots).size, slots.length);
  assert.ok(slots.length >= 29, `${slots.length}`);
});

test('two calls of advance() move on one after the other', async () => {
  const clock = new ManualClock();
  const begin = clock.nowMs;
  await Promise.all([clock.advance('1m'), clock.advance('2m')]);
  assert.equal(clock.nowMs - begin, 180_000);
});

test('stepWall() moves the wall clock alone', () => {
  const clock = new ManualClock(1_000);
  clock.stepWall(-400);
  assert.equal(clock.nowMs, 600);
  assert.throws(() => clock.stepWall(0.5), { code: 'INVALID_OPTION' });
});
