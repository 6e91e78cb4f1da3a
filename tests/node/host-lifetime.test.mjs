// Processes and threads that end while a backend of theirs has not answered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { play, start } from './program.mjs';

const ENDED = { status: 0, signal: null, stderr: '' };
const ended = ({ status, signal, stderr }) => ({ status, signal, stderr });

const STORE = `
  const { buildHistory } = require('anarchon');
  class Store {
    constructor(members) { Object.assign(this, { claims: [], results: [] }, members); }
    get name() { return 'mine'; }
    get dedupeWindowMs() { return Infinity; }
    init() {}
    prepareJob() {}
    claim({ slot, instanceId }) {
      this.claims.push({ slot, by: instanceId, at: Date.now(), manual: false });
      return true;
    }
    recordManualRun() {}
    saveResult(job, result) { this.results.push(result); }
    history(job, limit) {
      return buildHistory({ job, claims: this.claims, results: this.results, limit });
    }
    close() {}
  }
`;

for (const [what, member] of [
  ['a claim', 'claim'],
  ['a result', 'saveResult'],
  ['init', 'init'],
]) {
  test(`a worker thread that is terminated while ${what} hangs takes its scheduler with it`, async (t) => {
    const code = `
      const { Worker, isMainThread, parentPort } = require('node:worker_threads');
      const { Scheduler } = require('anarchon');
      ${STORE}
      const add = (scheduler) => scheduler.every('job', '1s', () => 'ran', { jitterMs: 0 });
      if (isMainThread) {
        (async () => {
          for (let round = 0; round < 3; round += 1) {
            const worker = new Worker(__filename);
            await new Promise((resolve) => worker.once('message', resolve));
            await worker.terminate();
          }
          const scheduler = new Scheduler({ backend: new Store(), logger: false });
          add(scheduler);
          await scheduler.start();
          console.log((await scheduler.runNow('job')).output);
          await scheduler.stop();
        })();
      } else {
        const hang = () => {
          parentPort.postMessage('hangs');
          return new Promise(() => {});
        };
        const scheduler = new Scheduler({ backend: new Store({ ${member}: hang }), logger: false });
        add(scheduler);
        scheduler.start();
      }
    `;
    const end = await play(t, code, { extension: 'cjs' });
    assert.deepEqual(ended(end), ENDED);
    assert.equal(end.stdout, '"ran"\n');
  });
}

test('stop() returns while a claim never answers, and the process ends', async (t) => {
  const code = `
    const { Scheduler } = require('anarchon');
    ${STORE}
    (async () => {
      let entered;
      const asked = new Promise((resolve) => { entered = resolve; });
      const claim = () => { entered(); return new Promise(() => {}); };
      const scheduler = new Scheduler({ backend: new Store({ claim }), logger: false });
      scheduler.every('job', '1s', () => console.log('ran'), { jitterMs: 0 });
      await scheduler.start();
      await asked;
      console.log(JSON.stringify(await scheduler.stop({ graceMs: 0 })));
    })();
  `;
  const end = await play(t, code, { extension: 'cjs' });
  assert.deepEqual(ended(end), ENDED);
  assert.deepEqual(JSON.parse(end.stdout), { finished: [], released: [], stillRunning: [] });
});

test('a signal stops a scheduler on a backend of the program, and closes it', async (t) => {
  const program = start(
    t,
    `
      const { Scheduler } = require('anarchon');
      ${STORE}
      const close = () => console.log('closed');
      const scheduler = new Scheduler({ backend: new Store({ close }), logger: false });
      scheduler.every('job', '1s', () => console.log('ran'), { jitterMs: 0 });
      scheduler.start({ signals: true });
    `,
    { extension: 'cjs' },
  );
  await program.printed('ran');
  program.child.kill('SIGTERM');
  const end = await program.ended;
  assert.deepEqual(ended(end), ENDED);
  assert.match(end.stdout, /closed\n$/);
});

test('a scheduler on a backend of the program that has not started keeps no process alive', async (t) => {
  const code = `
    const { Scheduler } = require('anarchon');
    ${STORE}
    new Scheduler({ backend: new Store() }).every('job', '1s', () => {});
  `;
  assert.deepEqual(ended(await play(t, code, { extension: 'cjs' })), ENDED);
});

test('process.exit() ends a process whose backend has not answered', async (t) => {
  const code = `
    const { Scheduler } = require('anarchon');
    ${STORE}
    const claim = () => { process.exit(7); };
    const scheduler = new Scheduler({ backend: new Store({ claim }), logger: false });
    scheduler.every('job', '1s', () => {}, { jitterMs: 0 });
    scheduler.start();
  `;
  const end = await play(t, code, { extension: 'cjs' });
  assert.deepEqual([end.status, end.signal], [7, null]);
});

test('backends that nobody uses any more are collected, with what is known of them', async (t) => {
  const code = `
    const { Scheduler } = require('anarchon');
    ${STORE}
    let collected = 0;
    const registry = new FinalizationRegistry(() => { collected += 1; });
    const once = async () => {
      const backend = new Store();
      registry.register(backend, undefined);
      const scheduler = new Scheduler({ backend, logger: false });
      scheduler.every('job', '1h', () => {});
      await scheduler.start();
      await scheduler.runNow('job');
      await scheduler.stop();
    };
    (async () => {
      for (let round = 0; round < 50; round += 1) await once();
      for (let turn = 0; turn < 20 && collected < 40; turn += 1) {
        global.gc();
        await new Promise((resolve) => setImmediate(resolve));
      }
      console.log(collected >= 40 ? 'collected' : collected);
    })();
  `;
  const end = await play(t, code, { extension: 'cjs', env: { NODE_OPTIONS: '--expose-gc' } });
  assert.equal(end.stderr, '');
  assert.equal(end.stdout, 'collected\n');
});
