// The compatibility rules for backends that people have written, one test a line of
// docs/writing-your-own-backend.md.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { buildHistory, Scheduler } from 'anarchon';
import { ClaimStore } from './stores/claims.mjs';
import { LeaseStore } from './stores/leases.mjs';

async function running(t, backend, options = {}) {
  const scheduler = new Scheduler({ backend, instanceId: 'a', logger: false });
  scheduler.errors = [];
  scheduler.on('error', (error) => scheduler.errors.push(error));
  scheduler.every('job', '1s', (ctx) => ctx.attempt, { jitterMs: 0, ...options });
  await scheduler.start();
  t.after(() => scheduler.stop({ graceMs: 0 }));
  return scheduler;
}

const REQUIRED = [
  'init',
  'prepareJob',
  'claim',
  'recordManualRun',
  'saveResult',
  'history',
  'close',
];

/** An object with these members of another and no further one. */
function only(object, names, more = {}) {
  const entries = names.map((name) => [name, object[name].bind(object)]);
  return { ...Object.fromEntries(entries), ...more };
}

test('new members of Backend are optional: the nine of the first version are enough', async (t) => {
  const facts = { name: 'nine', dedupeWindowMs: Number.POSITIVE_INFINITY };
  const backend = only(new ClaimStore(), REQUIRED, facts);
  const scheduler = await running(t, backend);
  const [record] = await once(scheduler, 'finished');
  assert.equal(record.status, 'succeeded');
  const byHand = await scheduler.runNow('job', { slot: 1_000 });
  assert.deepEqual([byHand.slot, byHand.manual], [1_000, true]);
  const shown = await scheduler.history('job');
  assert.ok(shown.some(({ slot, manual }) => slot === record.slot && !manual));
  assert.equal((await scheduler.explain('job', record.slot)).outcome, 'ran');
  for (const call of ['active', 'pause', 'resume', 'cancel', 'forget']) {
    await assert.rejects(scheduler[call]('job'), { code: 'LEASES_REQUIRED' });
  }
  assert.deepEqual(scheduler.errors, []);
});

test('new members of RunStore are optional: the five of the first version are enough', async (t) => {
  const store = new LeaseStore();
  const runs = only(store.runs, ['claim', 'heartbeat', 'finish', 'release', 'active']);
  const facts = { name: 'five', dedupeWindowMs: Number.POSITIVE_INFINITY, runs };
  const saved = [];
  const backend = only(store, REQUIRED, facts);
  backend.saveResult = async (job, result, ...rest) => {
    saved.push(result.slot);
    return store.saveResult(job, result, ...rest);
  };
  const scheduler = await running(t, backend);
  const [record] = await once(scheduler, 'finished');
  assert.deepEqual([record.status, record.output], ['succeeded', '1']);
  assert.deepEqual(saved, [record.slot], 'finish keeps no result, so saveResult is called');
  assert.equal((await scheduler.runNow('job', { force: true })).status, 'succeeded');
  assert.deepEqual(await scheduler.active('job'), []);
  assert.equal((await scheduler.explain('job', record.slot)).outcome, 'ran');
  for (const call of ['pause', 'cancel', 'forget']) {
    await assert.rejects(scheduler[call]('job'), { code: 'LEASES_REQUIRED' });
  }
  assert.deepEqual(scheduler.errors, []);
});

test('new fields of what you receive are optional to read: the first ones are always there', async (t) => {
  const store = new ClaimStore();
  const seen = [];
  store.claim = async ({ job, slot, token, instanceId, historySize, ..._new }) => {
    seen.push({ job, slot, token, instanceId, historySize });
    return ClaimStore.prototype.claim.call(store, { job, slot, token, instanceId });
  };
  const scheduler = await running(t, store, { historySize: 7 });
  await once(scheduler, 'finished');
  const [{ token, slot, ...rest }] = seen;
  assert.match(token, /^[0-9a-f]{32}$/);
  assert.equal(slot % 1_000, 0);
  assert.deepEqual(rest, { job: 'job', instanceId: 'a', historySize: 7 });
});

test('new fields of what you return are optional: the least that an outcome has is its kind', async (t) => {
  const store = new LeaseStore();
  const claim = store.runs.claim.bind(store.runs);
  store.runs.claim = async (input) => ({ kind: (await claim(input)).kind });
  store.runs.active = async () => [];
  const scheduler = await running(t, store);
  const [record] = await once(scheduler, 'finished');
  assert.deepEqual([record.status, record.output], ['succeeded', '1']);
  assert.deepEqual(scheduler.errors, []);
});

test('fields that the scheduler does not know do no harm', async (t) => {
  const store = new LeaseStore();
  const claim = store.runs.claim.bind(store.runs);
  store.runs.claim = async (input) => ({
    ...(await claim(input)),
    mood: 'good',
    nested: { a: [1] },
  });
  const history = store.history.bind(store);
  store.history = async (job, limit) =>
    (await history(job, limit)).map((record) => ({ ...record, region: 'eu', tags: [] }));
  const scheduler = await running(t, store);
  const [record] = await once(scheduler, 'finished');
  assert.equal((await scheduler.history('job')).at(-1).slot, record.slot);
  assert.deepEqual(scheduler.errors, []);
});

test('buildHistory carries every field of a result into the record', () => {
  const result = {
    slot: 60_000,
    manual: false,
    by: 'a',
    status: 'failed',
    startedAt: 60_010,
    endedAt: 60_050,
    attempt: 2,
    error: { name: 'TypeError', message: 'no', stack: 'at x' },
    output: '[1,2',
    outputTruncated: true,
    abandoned: true,
  };
  const claims = [{ slot: 60_000, by: 'a', at: 60_004, manual: false, ours: 'ignored' }];
  const [record] = buildHistory({ job: 'job', claims, results: [result], limit: 1 });
  const added = { job: 'job', at: 60_004, durationMs: 40 };
  assert.deepEqual(record, { ...result, ...added });
});

test('ClaimOutcome may gain kinds: one that the scheduler does not know is treated like done', async (t) => {
  const store = new LeaseStore();
  const asked = [];
  store.runs.claim = async ({ slot }) => {
    asked.push(slot);
    return { kind: 'queued_elsewhere', nowMs: Date.now() };
  };
  const scheduler = await running(t, store);
  const won = [];
  scheduler.on('won', (run) => won.push(run));
  await new Promise((resolve) => {
    const claim = store.runs.claim;
    store.runs.claim = (input) => {
      if (asked.length >= 2) resolve();
      return claim(input);
    };
  });
  assert.deepEqual(won, []);
  assert.deepEqual(scheduler.errors, []);
  assert.equal(new Set(asked).size, asked.length, 'a slot that is done is not asked for again');
});

test('errors that you throw reach the user as they are', async (t) => {
  const store = new ClaimStore();
  const scheduler = await running(t, store);
  const mine = Object.assign(new Error('mine'), { code: 'E_MINE' });
  store.history = async () => {
    throw mine;
  };
  await assert.rejects(scheduler.history('job'), (error) => error === mine);
});
