// What a backend in JavaScript answers wrong, never, or too late: who is told, and that it harms
// nothing else.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AnarchonError, Scheduler } from 'anarchon';
import { ClaimStore } from './stores/claims.mjs';
import { at, replace, WholeStore } from './stores/whole.mjs';

const unhandled = [];
const note = (error) => unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => {
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, [], 'nothing may become an unhandled rejection');
});

/** A scheduler with a job; `failed` resolves with the first error that it tells in the background. */
function scheduler(t, backend, { when = '1h', handler = () => 'fine', ...options } = {}) {
  const one = new Scheduler({ backend, logger: false });
  const told = [];
  const failed = new Promise((resolve) => {
    one.on('error', (error) => {
      told.push(error);
      resolve(error);
    });
  });
  one.every('job', when, handler, { jitterMs: 0, ...options });
  t.after(() => one.stop({ graceMs: 0 }).catch(() => {}));
  return Object.assign(one, { failed, told });
}

async function thrownBy(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

/** Whoever holds the store, it works. */
async function works(t, store) {
  const one = new Scheduler({ backend: store, logger: false });
  one.on('error', () => {});
  one.every('other', '1h', () => 'works', { jitterMs: 0 });
  t.after(() => one.stop({ graceMs: 0 }).catch(() => {}));
  await one.start();
  assert.equal((await one.runNow('other')).output, '"works"');
}

/** A handler that ends when it is told to. */
const untilTold = (ctx) => once(ctx.signal, 'abort').then(() => Promise.reject(ctx.signal.reason));

// The member; what it answers; the call that hears of it, if it is not the background; what is said.
const WRONG = [
  ['claim', 1, undefined, /ClaimStore\.claim\(\) answered 1; it must answer true or false/],
  ['claim', undefined, undefined, /ClaimStore\.claim\(\) answered null; it must/],
  [
    'history',
    'rows',
    (one) => one.history('job'),
    /ClaimStore\.history\(\) answered "rows"; it must/,
  ],
  [
    'history',
    [{ slot: 1 }],
    (one) => one.history('job'),
    /history\(\) answered \[\{"slot":1\}\]; it must answer a list of run records/,
  ],
  [
    'recordManualRun',
    true,
    (one) => one.runNow('job'),
    /recordManualRun\(\) answered true; it must/,
  ],
  [
    'runs.claim',
    'won',
    undefined,
    /WholeStore\.runs\.claim\(\) answered "won"; it must answer an outcome/,
  ],
  ['runs.claim', true, undefined, /runs\.claim\(\) answered true; it must answer an outcome/],
  [
    'runs.claimManual',
    7,
    (one) => one.runNow('job'),
    /runs\.claimManual\(\) answered 7; it must answer an outcome/,
  ],
  [
    'runs.active',
    {},
    (one) => one.active('job'),
    /WholeStore\.runs\.active\(\) answered \{\}; it must/,
  ],
  [
    'runs.survey',
    5,
    (one) => one.history('job', { missed: true }),
    /WholeStore\.runs\.survey\(\) answered 5; it must/,
  ],
  [
    'runs.forget',
    'gone',
    (one) => one.forget('job'),
    /runs\.forget\(\) answered "gone"; it must answer true or false/,
  ],
];

for (const [path, answer, act, message] of WRONG) {
  test(`${path} answering ${JSON.stringify(answer)} is refused by name`, async (t) => {
    const store = path.startsWith('runs') ? new WholeStore() : new ClaimStore();
    const one = scheduler(t, store, { when: act ? '1h' : '1s' });
    if (act) await one.start();
    const restore = replace(store, path, async () => answer);
    if (!act) await one.start();
    const error = act ? await thrownBy(() => act(one)) : await one.failed;
    assert.ok(error instanceof AnarchonError);
    assert.equal(error.code, 'BACKEND_REFUSED');
    assert.match(error.message, message);
    restore();
    assert.equal((await one.runNow('job', { force: true })).output, '"fine"');
  });
}

test('runs.heartbeat answering 1 is refused by name, and the lease is still held', async (t) => {
  const store = new WholeStore();

  const one = scheduler(t, store, { handler: () => one.failed.then(() => 'held'), leaseMs: '1s' });
  await one.start();
  const restore = replace(store, 'runs.heartbeat', async () => 1);
  one.failed.then(restore);
  assert.equal((await one.runNow('job')).output, '"held"');
  assert.match(String(await one.failed), /WholeStore\.runs\.heartbeat\(\) answered 1; it must/);
});

test('runs.finish answering 1 is refused by name once, and the end is stored later', async (t) => {
  const store = new WholeStore();
  const one = scheduler(t, store);
  await one.start();
  const restore = replace(store, 'runs.finish', async () => 1);
  one.once('storeDown', restore);
  assert.equal((await one.runNow('job')).status, 'succeeded');
  assert.equal(one.told.length, 1);
  assert.match(one.told[0].message, /WholeStore\.runs\.finish\(\) answered 1; it must/);
});

test('runs.release answering 1 is refused by name, and stop() returns', async (t) => {
  const store = new WholeStore();
  const one = scheduler(t, store, { when: '1s', handler: untilTold, leaseMs: '5s' });
  const entered = once(one, 'started');
  await one.start();
  await entered;
  replace(store, 'runs.release', async () => 1);
  await one.stop({ graceMs: 0 });
  assert.match(String(await one.failed), /WholeStore\.runs\.release\(\) answered 1; it must/);
});

test('runs.cancel answering 1 is refused by name', async (t) => {
  const store = new WholeStore();
  const one = scheduler(t, store, { handler: untilTold });
  await one.start();
  const entered = once(one, 'started');
  const run = one.runNow('job').catch(() => {});
  await entered;
  replace(store, 'runs.cancel', async () => 1);
  const error = await thrownBy(() => one.cancel('job'));
  assert.match(error.message, /WholeStore\.runs\.cancel\(\) answered 1; it must answer true or/);
  await one.stop({ graceMs: 0 });
  await run;
});

test('what members without an answer return is not looked at', async (t) => {
  const store = new WholeStore();
  const cyclic = {};
  cyclic.self = cyclic;
  for (const path of ['init', 'prepareJob', 'saveResult', 'close', 'runs.setPaused']) {
    const [object, name] = at(store, path);
    const before = object[name];
    object[name] = async (...args) => {
      await before.apply(object, args);
      return 'thanks';
    };
  }
  const one = scheduler(t, store);
  await one.start();
  assert.equal((await one.runNow('job')).output, '"fine"');
  await one.pause('job');
  await one.stop();
  assert.deepEqual(one.told, []);
});

test('a cyclic answer is refused by name, and harms nothing', async (t) => {
  const store = new ClaimStore();
  const one = scheduler(t, store);
  await one.start();
  const cyclic = [];
  cyclic.push(cyclic);
  store.history = async () => cyclic;
  const error = await thrownBy(() => one.history('job'));
  assert.match(String(error.message), /circular/i);
  assert.equal((await one.runNow('job')).output, '"fine"');
});

const thenable = (then) => ({ then });

test('a promise that settles twice, or a thenable that throws, is answered once', async (t) => {
  const store = new ClaimStore();
  const one = scheduler(t, store);
  await one.start();
  const empty = store.history('job', 5);
  store.history = () =>
    thenable((yes, no) => {
      yes(empty);
      no(new Error('late'));
      yes([{}]);
    });
  assert.deepEqual(await one.history('job'), []);
  const thrown = new RangeError('then');
  store.history = () =>
    thenable(() => {
      throw thrown;
    });
  assert.equal(await thrownBy(() => one.history('job')), thrown);
});

// The member; the call that waits for it, if it is not the background.
const SILENT = [
  ['init', (one) => one.start()],
  // What creates tables has half a minute, and start() does not wait for so long.
  ['prepareJob', undefined],
  ['claim', undefined],
  ['saveResult', undefined],
  ['recordManualRun', (one) => one.runNow('job')],
  ['history', (one) => one.history('job')],
  ['runs.claim', undefined],
  ['runs.heartbeat', undefined],
  ['runs.finish', undefined],
  ['runs.claimManual', (one) => one.runNow('job')],
  ['runs.active', (one) => one.active('job')],
  ['runs.survey', (one) => one.history('job', { missed: true })],
  ['runs.setPaused', (one) => one.pause('job')],
  ['runs.forget', (one) => one.forget('job')],
];

/** A member that answers nothing until it is told what. */
function silent() {
  const answers = [];
  const member = () => new Promise((resolve) => answers.push(resolve));
  return { member, answer: (value) => answers.map((resolve) => resolve(value)).length };
}

// Most have five seconds to answer: the tests wait side by side.
describe('a member that never answers', { concurrency: true }, () => {
  for (const [path, act] of SILENT) {
    test(`${path} is named, and one that answers after stop() harms nothing`, async (t) => {
      const store = path.startsWith('runs') ? new WholeStore() : new ClaimStore();
      // The deadline of a call about a lease is a sixth of it.
      const leases = path.startsWith('runs') ? { leaseMs: 1_200 } : {};
      const late = silent();
      const entered = [];
      const handler = async (ctx) => {
        entered.push(ctx.slot);
        if (path === 'runs.heartbeat') await one.failed;
      };
      const one = scheduler(t, store, { when: act ? '1h' : '1s', handler, ...leases });
      if (act && path !== 'init') await one.start();
      const restore = replace(store, path, late.member);
      if (!act) await one.start();
      const error = act ? await thrownBy(() => act(one)) : await one.failed;
      assert.equal(error.code, 'BACKEND_UNAVAILABLE');
      assert.match(error.message, new RegExp(`${path.replace('.', '\\.')}: no answer within`));
      await one.stop({ graceMs: 0 });
      const before = entered.length;
      restore();
      assert.ok(late.answer(path.startsWith('runs') ? { kind: 'won' } : true) >= 1);
      await sleep(50);
      assert.equal(entered.length, before, 'a late answer started something');
      await works(t, store);
    });
  }

  for (const path of ['close', 'runs.release']) {
    test(`${path} does not keep stop() from returning`, async (t) => {
      const store = new WholeStore();
      const one = scheduler(t, store, { when: '1s', handler: untilTold, leaseMs: 1_200 });
      const entered = once(one, 'started');
      await one.start();
      await entered;
      const late = silent();
      const restore = replace(store, path, late.member);
      await one.stop({ graceMs: 0 }).catch((error) => assert.match(error.message, /no answer/));
      restore();
      late.answer(true);
      await works(t, store);
    });
  }
});
