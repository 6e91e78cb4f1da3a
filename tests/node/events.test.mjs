// What a scheduler tells, and to whom. Case B03.
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { after, before, test } from 'node:test';
import { AnarchonError, MemoryBackend, Scheduler } from 'anarchon';

const unhandled = [];
const note = (error) => unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => {
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, [], 'no listener may cause an unhandled rejection');
});

function recorder() {
  const lines = [];
  const write = (level) => (message, fields) => lines.push({ level, message, fields });
  const logger = {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  };
  return { lines, logger };
}

async function running(t, options) {
  const scheduler = new Scheduler({ backend: new MemoryBackend(), ...options });
  t.after(() => scheduler.stop({ graceMs: 0 }));
  scheduler.every('job', '1h', () => 'done');
  await scheduler.start();
  return scheduler;
}

test('a run is told as won, started, finished', async (t) => {
  const scheduler = await running(t, { logger: false, instanceId: 'a' });
  const seen = [];
  for (const name of ['won', 'started', 'finished']) {
    scheduler.on(name, (payload) => seen.push([name, payload]));
  }
  const record = await scheduler.runNow('job');
  assert.deepEqual(
    seen.map(([name]) => name),
    ['won', 'started', 'finished'],
  );
  const [, run] = seen[1];
  assert.deepEqual(
    [run.job, run.slot, run.manual, run.instanceId],
    ['job', record.slot, true, 'a'],
  );
  assert.equal(seen[2][1].status, 'succeeded');
});

test('a scheduler is an EventEmitter', async (t) => {
  const scheduler = await running(t, { logger: false });
  assert.ok(scheduler instanceof EventEmitter);
  const finished = once(scheduler, 'finished');
  await scheduler.runNow('job');
  const [record] = await finished;
  assert.equal(record.job, 'job');
  const listener = () => {};
  scheduler.on('won', listener).off('won', listener);
  assert.equal(scheduler.listenerCount('won'), 0);
});

test('a listener of an event that never comes is refused with the nearest name', async () => {
  const scheduler = new Scheduler({ backend: 'memory:', logger: false });
  for (const add of ['on', 'once', 'addListener', 'prependListener', 'prependOnceListener']) {
    assert.throws(
      () => scheduler[add]('finshed', () => {}),
      (error) => error.code === 'INVALID_OPTION' && /did you mean "finished"/.test(error.message),
    );
  }
});

test('B03: a listener that throws or rejects is logged once and harms nothing', async (t) => {
  const { lines, logger } = recorder();
  const scheduler = await running(t, { logger });
  const broken = new Error('the listener is broken');
  const seen = [];
  scheduler.on('finished', () => {
    throw broken;
  });
  scheduler.on('finished', async () => {
    throw broken;
  });
  scheduler.once('finished', () => seen.push('after'));
  await scheduler.runNow('job');
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(seen, ['after']);
  const errors = lines.filter((line) => line.fields?.error === broken);
  assert.equal(errors.length, 2);
  assert.ok(errors.every((line) => line.level === 'error' && line.message.includes('"finished"')));
  assert.equal((await scheduler.runNow('job')).status, 'succeeded');
});

test('B03: a logger that throws harms nothing', async (t) => {
  const broken = () => {
    throw new Error('the logger is broken');
  };
  const logger = { debug: broken, info: broken, warn: broken, error: broken };
  const scheduler = await running(t, { logger });
  assert.equal((await scheduler.runNow('job')).status, 'succeeded');
});

test('a failed run is logged with what the handler threw', async (t) => {
  const { lines, logger } = recorder();
  const scheduler = await running(t, { logger });
  const error = new Error('no paper');
  scheduler.every('print', '1h', () => {
    throw error;
  });
  await scheduler.runNow('print');
  const [line] = lines.filter((line) => line.level === 'error');
  assert.match(line.message, /"print".*failed/);
  assert.equal(line.fields.error, error);
});

test('at the start one line says what runs where', async (t) => {
  const { lines, logger } = recorder();
  await running(t, { logger, instanceId: 'web-1', namespace: 'shop' });
  const infos = lines.filter((line) => line.level === 'info');
  assert.equal(infos.length, 1, JSON.stringify(infos));
  for (const word of ['memory', 'shop', 'web-1']) assert.ok(infos[0].message.includes(word), word);
});

test('a logger that lacks a function is refused', () => {
  assert.throws(
    () => new Scheduler({ backend: 'memory:', logger: { warn() {} } }),
    (error) =>
      error instanceof AnarchonError &&
      error.code === 'INVALID_OPTION' &&
      /debug, info, error/.test(error.message),
  );
});
