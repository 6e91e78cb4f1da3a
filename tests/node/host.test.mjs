// Backends written in JavaScript: what is called, how, and what becomes of what they throw.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { AnarchonError, Scheduler } from 'anarchon';
import { ClaimStore } from './stores/claims.mjs';
import { LeaseStore } from './stores/leases.mjs';
import { at, WholeStore } from './stores/whole.mjs';

const unhandled = [];
const note = (error) => unhandled.push(error);
before(() => process.on('unhandledRejection', note));
after(() => {
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, [], 'nothing may become an unhandled rejection');
});

function scheduler(t, backend, options = {}) {
  const one = new Scheduler({ backend, logger: false, ...options });
  one.on('error', () => {});
  // What the test made of `close` is the test's business.
  t.after(() => one.stop({ graceMs: 0 }).catch(() => {}));
  return one;
}

async function thrownBy(call) {
  try {
    await call();
  } catch (error) {
    return { error };
  }
  throw new Error('nothing was thrown');
}

class StoreError extends Error {
  code = 'E_MINE';
}

const THROWN = [
  ['an error with a code of its own', new StoreError('no')],
  ['a frozen object', Object.freeze({ why: 'no' })],
  ['a text', 'no'],
  ['undefined', undefined],
  ['an error of the library', new AnarchonError('BACKEND_REFUSED', 'mine')],
];

// The call of the user; the member that it reaches; whether the scheduler was started before.
const REACHED = [
  ['start', 'init', false, (one) => one.start()],
  ['start', 'prepareJob', false, (one) => one.start()],
  [
    'start with wait: true of a second scheduler',
    'init',
    false,
    (one) => one.start({ wait: true }),
  ],
  ['history without a start', 'init', false, (one) => one.history('job')],
  ['ready', 'prepareJob', true, (one) => one.every('late', '1h', () => {}).ready()],
  ['runNow', 'runs.claimManual', true, (one) => one.runNow('job')],
  ['history', 'history', true, (one) => one.history('job')],
  ['history of missed slots', 'runs.survey', true, (one) => one.history('job', { missed: true })],
  ['active', 'runs.active', true, (one) => one.active('job')],
  ['explain', 'history', true, (one) => one.explain('job', 1)],
  ['explain', 'runs.survey', true, (one) => one.explain('job', 1)],
  ['pause', 'runs.setPaused', true, (one) => one.pause('job')],
  ['resume', 'runs.setPaused', true, (one) => one.resume('job')],
  ['cancel', 'runs.active', true, (one) => one.cancel('job')],
  ['forget', 'runs.forget', true, (one) => one.forget('job')],
  ['stop', 'close', true, (one) => one.stop()],
];

for (const [call, path, started, act] of REACHED) {
  test(`what ${path} throws leaves ${call}() as it is`, async (t) => {
    for (const [what, thrown] of THROWN) {
      for (const how of ['throws', 'rejects']) {
        const store = new WholeStore();
        const one = scheduler(t, store);
        one.every('job', '1h', () => {});
        if (started) await one.start();
        const [object, member] = at(store, path);
        object[member] = () => {
          if (how === 'throws') throw thrown;
          return Promise.reject(thrown);
        };
        const { error } = await thrownBy(() => act(one));
        assert.equal(error, thrown, `${what}, ${how}`);
      }
    }
  });
}

test('what runs.cancel throws leaves cancel() as it is', async (t) => {
  const store = new WholeStore();
  const one = scheduler(t, store);
  one.every('job', '1h', (ctx) => once(ctx.signal, 'abort'));
  await one.start();
  const entered = once(one, 'started');
  const run = one.runNow('job').catch(() => {});
  await entered;
  const thrown = new StoreError('not yours');
  store.runs.cancel = () => {
    throw thrown;
  };
  assert.equal((await thrownBy(() => one.cancel('job'))).error, thrown);
  await one.stop({ graceMs: 0 });
  await run;
});

test('what recordManualRun throws leaves runNow() as it is', async (t) => {
  const store = new ClaimStore();
  const one = scheduler(t, store);
  one.every('job', '1h', () => {});
  await one.start();
  const thrown = new StoreError('no');
  store.recordManualRun = () => Promise.reject(thrown);
  assert.equal((await thrownBy(() => one.runNow('job'))).error, thrown);
});

for (const kind of ['every', 'cron', 'at']) {
  test(`what checkJob throws leaves ${kind}() as it is, at once, and nothing is registered`, () => {
    const thrown = new StoreError('too much');
    const seen = [];
    const store = Object.assign(new LeaseStore(), {
      checkJob(limits) {
        assert.equal(this, store);
        seen.push(limits);
        throw thrown;
      },
    });
    const one = new Scheduler({ backend: store, logger: false });
    const when = { every: '1h', cron: '0 7 * * *', at: Date.now() + 60_000 }[kind];
    const options = { jitterMs: 5, maxLateMs: '2s', historySize: 7, historyTtlMs: 90_000 };
    assert.throws(
      () => one[kind]('job', when, () => {}, { ...options, leaseMs: 9_000, catchUp: 'none' }),
      (error) => error === thrown,
    );
    assert.deepEqual(one.jobs, []);
    const { name, jitterMs, maxLateMs, historySize, historyTtlMs, leaseMs } = seen[0];
    assert.deepEqual(
      { name, jitterMs, maxLateMs, historySize, historyTtlMs, leaseMs },
      { name: 'job', ...options, maxLateMs: 2_000, leaseMs: 9_000 },
    );
    assert.equal(seen[0].overlap, 'skip');
    assert.equal(seen[0].catchUp, 'none');
  });
}

test('a checkJob that answers with a promise is refused, and its rejection is nobody’s', async () => {
  const store = Object.assign(new ClaimStore(), {
    checkJob: () => Promise.reject(new Error('no')),
  });
  const one = new Scheduler({ backend: store, logger: false });
  assert.throws(() => one.every('job', '1h', () => {}), {
    code: 'INVALID_OPTION',
    message: /claims: checkJob\(\) returned a promise/,
  });
});

test('a job that a store may forget too early is refused with the numbers', () => {
  const store = Object.assign(new ClaimStore(), { dedupeWindowMs: 10_000 });
  const one = new Scheduler({ backend: store, logger: false });
  const refused = () => one.every('job', '1h', () => {}, { jitterMs: 4_000, maxLateMs: 6_000 });
  assert.throws(refused, { code: 'DEDUPE_WINDOW_TOO_SHORT', message: /4000.*6000.*10000/s });
  one.every('job', '1h', () => {}, { jitterMs: 3_999, maxLateMs: 6_000 });
});

for (const options of [
  { leaseMs: 5_000 },
  { overlap: 'skip' },
  { catchUp: 'latest' },
  { maxTakeovers: 1 },
]) {
  test(`${Object.keys(options)[0]} needs leases, and says so`, () => {
    const one = new Scheduler({ backend: new ClaimStore(), logger: false });
    assert.throws(() => one.every('job', '1h', () => {}, options), { code: 'LEASES_REQUIRED' });
  });
}

// What fails in the background; whether the run is won and goes on all the same.
for (const [path, Store, goesOn] of [
  ['claim', ClaimStore, false],
  ['recordClaim', ClaimStore, true],
  ['runs.claim', WholeStore, false],
  ['recordClaim', WholeStore, true],
]) {
  test(`what ${path} throws in the background goes to error once, as it is (${Store.name})`, async (t) => {
    const store = new Store();
    const thrown = new StoreError(`from ${path}`);
    const [object, member] = at(store, path);
    object[member] = () => {
      throw thrown;
    };
    const one = scheduler(t, store);
    one.every('job', '1s', () => {}, { jitterMs: 0 });
    const seen = [];
    one.on('error', (error, info) => seen.push([error, info.job]));
    const failed = once(one, 'error').catch((error) => [error]);
    const ended = goesOn ? once(one, 'finished').catch(() => once(one, 'finished')) : undefined;
    await one.start();
    assert.equal((await failed)[0], thrown);
    if (ended) assert.equal((await ended)[0].status, 'succeeded');
    // The same again is not told again.
    if (path.endsWith('claim')) await once(one, 'storeDown');
    assert.deepEqual(seen, [[thrown, 'job']]);
  });
}

for (const [path, Store] of [
  ['saveResult', ClaimStore],
  ['runs.finish', WholeStore],
]) {
  test(`what ${path} throws is told once, and the end is stored when it works again`, async (t) => {
    const store = new Store();
    const thrown = new StoreError(`from ${path}`);
    const [object, member] = at(store, path);
    const works = object[member];
    object[member] = () => Promise.reject(thrown);
    const one = scheduler(t, store);
    one.every('job', '1h', () => 'kept');
    await one.start();
    const seen = [];
    one.on('error', (error) => seen.push(error));
    const down = new Promise((resolve) => one.once('storeDown', resolve));
    const run = one.runNow('job');
    await down;
    object[member] = works;
    const record = await run;
    assert.deepEqual([record.status, record.output], ['succeeded', '"kept"']);
    assert.equal(seen.length, 1);
    assert.equal(seen[0], thrown);
    assert.equal((await one.history('job'))[0].output, '"kept"');
  });
}

test('members are called on their object: private fields, arrows, accessors, inherited ones', async (t) => {
  class Base extends ClaimStore {
    #calls = [];
    get calls() {
      return this.#calls;
    }
    async init() {
      this.#calls.push('init');
    }
  }
  class Mine extends Base {
    get name() {
      return 'mine';
    }
    #kept = new Set();
    claim = async ({ slot }) => !this.#kept.has(slot) && Boolean(this.#kept.add(slot));
    close() {
      this.calls.push('close');
    }
  }
  // An instance property of the base hides an accessor.
  const store = new Mine();
  delete store.name;
  const one = scheduler(t, store, { instanceId: 'a' });
  one.every('job', '1s', (ctx) => ctx.slot, { jitterMs: 0 });
  await one.start();
  const [record] = await once(one, 'finished');
  assert.equal(record.output, String(record.slot));
  await one.stop();
  assert.deepEqual(store.calls, ['init', 'close']);
  assert.equal(one.backend.name, 'mine');
  assert.equal(one.backend, store);
});

test('schedulers that share an object initialise it once, and the last one closes it', async (t) => {
  const store = new ClaimStore();
  const calls = [];
  store.init = async () => void calls.push('init');
  store.close = async () => void calls.push('close');
  const all = ['a', 'b', 'c'].map((instanceId) => scheduler(t, store, { instanceId }));
  for (const one of all) one.every('job', '1h', () => {});
  await Promise.all(all.map((one) => one.start()));
  assert.deepEqual(calls, ['init']);
  await all[0].stop();
  await all[1].stop();
  assert.deepEqual(calls, ['init']);
  await all[2].stop();
  assert.deepEqual(calls, ['init', 'close']);
  await all[1].start();
  await all[1].stop();
  assert.deepEqual(calls, ['init', 'close', 'init', 'close']);
});

for (const [what, change, message] of [
  ['without claim', { claim: undefined }, /ClaimStore is no backend: it has no claim/],
  ['without a name', { name: '' }, /ClaimStore\.name is ""; it must be a text/],
  [
    'with a window of 0',
    { dedupeWindowMs: 0 },
    /dedupeWindowMs is 0; it must be a positive number/,
  ],
  ['with a window of NaN', { dedupeWindowMs: Number.NaN }, /dedupeWindowMs is "NaN"/],
  [
    'with half a RunStore',
    { runs: { claim() {}, heartbeat() {} } },
    /runs.* it has no finish, release, active/,
  ],
  ['with runs that are none', { runs: 3 }, /ClaimStore\.runs is 3; allowed is a RunStore/],
]) {
  test(`a backend ${what} is refused when it is handed over`, () => {
    const store = Object.assign(new ClaimStore(), change);
    assert.throws(() => new Scheduler({ backend: store, logger: false }), {
      code: 'INVALID_OPTION',
      message,
    });
  });
}

test('the leases may be the backend object itself', async (t) => {
  class Both extends LeaseStore {
    name = 'both';
  }
  const store = new Both();
  const leases = store.runs;
  store.runs = store;
  Object.assign(store, { store });
  for (const name of ['heartbeat', 'finish', 'release', 'active']) {
    store[name] = leases[name].bind(leases);
  }
  store.claim = (input) => leases.claim(input);
  const one = scheduler(t, store);
  one.every('job', '1s', () => 'mine', { jitterMs: 0 });
  await one.start();
  const [record] = await once(one, 'finished');
  assert.deepEqual([record.output, record.attempt], ['"mine"', 1]);
});
