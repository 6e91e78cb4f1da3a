// When a process that uses the package ends, and how. Cases B01, L01.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { play, start } from './program.mjs';

const ENDED = { status: 0, signal: null, stderr: '' };
const ended = ({ status, signal, stderr }) => ({ status, signal, stderr });

test('importing the package alone keeps no process alive', async (t) => {
  assert.deepEqual(ended(await play(t, `import 'anarchon'; import 'anarchon/testing';`)), ENDED);
});

test('a scheduler that has not started keeps no process alive', async (t) => {
  const code = `
    import { Scheduler } from 'anarchon';
    const scheduler = new Scheduler({ backend: 'memory:' });
    scheduler.every('job', '1h', () => {});
  `;
  assert.deepEqual(ended(await play(t, code)), ENDED);
});

test('B01: after stop() the process ends by itself', async (t) => {
  const code = `
    import { Scheduler } from 'anarchon';
    const scheduler = new Scheduler({ backend: 'memory:' });
    scheduler.every('job', '100ms', () => {});
    const finished = new Promise((resolve) => scheduler.once('finished', resolve));
    await scheduler.start();
    await finished;
    await scheduler.stop();
    const stopped = performance.now();
    process.on('exit', () => console.log(performance.now() - stopped < 1_000 ? 'soon' : 'late'));
  `;
  const end = await play(t, code);
  assert.deepEqual(ended(end), ENDED);
  assert.equal(end.stdout, 'soon\n');
});

test('a running scheduler keeps the process alive, until it is told to stop', async (t) => {
  const program = start(
    t,
    `
      import { Scheduler } from 'anarchon';
      const scheduler = new Scheduler({ backend: 'memory:' });
      scheduler.every('job', '100ms', () => console.log('ran'));
      await scheduler.start({ signals: true });
      process.on('exit', () => console.log('running:', scheduler.running));
    `,
  );
  await program.printed('ran');
  program.child.kill('SIGTERM');
  const end = await program.ended;
  assert.deepEqual(ended(end), ENDED);
  assert.match(end.stdout, /running: false/);
});

test('B01: with keepAlive: false a running scheduler keeps no process alive', async (t) => {
  const code = `
    import { Scheduler } from 'anarchon';
    const scheduler = new Scheduler({ backend: 'memory:', keepAlive: false });
    scheduler.every('job', '1h', () => {});
    await scheduler.start();
    console.log((await scheduler.runNow('job')).status);
  `;
  const end = await play(t, code);
  assert.deepEqual(ended(end), ENDED);
  assert.equal(end.stdout, 'succeeded\n');
});

test('a second signal ends the process at once', async (t) => {
  const program = start(
    t,
    `
      import { Scheduler } from 'anarchon';
      const scheduler = new Scheduler({ backend: 'memory:' });
      scheduler.every('job', '100ms', (ctx) => {
        console.log('entered');
        return new Promise(() => {});
      });
      await scheduler.start({ signals: true });
      process.on('SIGINT', () => console.log('first'));
    `,
  );
  await program.printed('entered');
  program.child.kill('SIGINT');
  await program.printed('first');
  program.child.kill('SIGINT');
  assert.equal((await program.ended).status, 130);
});

test('without signals: true a signal does what it always does', async (t) => {
  const program = start(
    t,
    `
      import { Scheduler } from 'anarchon';
      const scheduler = new Scheduler({ backend: 'memory:' });
      scheduler.every('job', '1h', () => {});
      await scheduler.start();
      console.log('ready');
    `,
  );
  await program.printed('ready');
  program.child.kill('SIGTERM');
  assert.equal((await program.ended).signal, 'SIGTERM');
});

for (const [how, last, status] of [
  ['process.exit()', 'process.exit(7);', 7],
  ['an error that nobody catches', `setTimeout(() => { throw new Error('mine'); });`, 1],
]) {
  test(`${how} ends a process with a running scheduler`, async (t) => {
    const code = `
      import { Scheduler } from 'anarchon';
      const scheduler = new Scheduler({ backend: 'memory:' });
      scheduler.every('job', '100ms', () => {});
      await scheduler.start();
      await new Promise((resolve) => scheduler.once('finished', resolve));
      ${last}
    `;
    const end = await play(t, code);
    assert.deepEqual([end.status, end.signal], [status, null]);
  });
}

test('a worker thread that is terminated takes its schedulers with it', async (t) => {
  const code = `
    const { Worker, isMainThread, parentPort } = require('node:worker_threads');
    const { MemoryBackend, Scheduler } = require('anarchon');
    if (isMainThread) {
      (async () => {
        for (let round = 0; round < 5; round += 1) {
          const worker = new Worker(__filename);
          await new Promise((resolve) => worker.once('message', resolve));
          await worker.terminate();
        }
        const scheduler = new Scheduler({ backend: 'memory:', logger: false });
        scheduler.every('job', '1h', () => 'here');
        await scheduler.start();
        console.log((await scheduler.runNow('job')).output);
        await scheduler.stop();
      })();
    } else {
      // A store of its own: what an ended thread held on a shared one stays held for a lease.
      const scheduler = new Scheduler({ backend: new MemoryBackend(), logger: false });
      scheduler.every('work', '100ms', () => {
        parentPort.postMessage('running');
        return new Promise(() => {});
      });
      scheduler.start();
    }
  `;
  const end = await play(t, code, { extension: 'cjs' });
  assert.deepEqual(ended(end), ENDED);
  assert.equal(end.stdout, '"here"\n');
});

test('a scheduler works in a worker thread, and signals are refused there', async (t) => {
  const code = `
    const { Worker, isMainThread } = require('node:worker_threads');
    const { Scheduler } = require('anarchon');
    if (isMainThread) {
      new Worker(__filename);
    } else {
      (async () => {
        const scheduler = new Scheduler({ backend: 'memory:', logger: false });
        scheduler.every('job', '1h', () => 'there');
        await scheduler.start({ signals: true }).catch((error) => console.log(error.code));
        await scheduler.start();
        console.log((await scheduler.runNow('job')).output);
        await scheduler.stop();
      })();
    }
  `;
  const end = await play(t, code, { extension: 'cjs' });
  assert.deepEqual(ended(end), ENDED);
  assert.equal(end.stdout, 'INVALID_OPTION\n"there"\n');
});

test('B01: a hundred thousand callbacks leave the memory as it is', async (t) => {
  const code = `
    import { Scheduler } from 'anarchon';
    import { ManualClock } from 'anarchon/testing';
    const clock = new ManualClock();
    const scheduler = new Scheduler({ clock, logger: false });
    let calls = 0;
    for (let n = 0; n < 50; n += 1) {
      scheduler.every('job ' + n, '1s', async (ctx) => {
        calls += 1;
        // Each answer is a callback too.
        for (let m = 0; m < 40; m += 1, calls += 1) await ctx.sleep(0);
      }, { jitterMs: 0, historySize: 1, catchUp: 'none' });
    }
    for (const name of ['won', 'started', 'finished']) scheduler.on(name, () => { calls += 1; });
    await scheduler.start();
    const rss = () => { global.gc?.(); return process.memoryUsage.rss() / 2 ** 20; };
    await clock.advance('10s');
    const before = rss();
    const first = calls;
    await clock.advance('50s');
    console.log(calls - first >= 100_000 ? 'many' : calls - first, Math.round(rss() - before));
    await scheduler.stop();
  `;
  const end = await play(t, code);
  assert.equal(end.stderr, '');
  const [many, grown] = end.stdout.trim().split(' ');
  assert.equal(many, 'many');
  assert.ok(Number(grown) < 20, `the process grew by ${grown} MiB`);
});

test('L01: a handler that blocks the event loop for three leases keeps its lease', async (t) => {
  const code = `
    import { Scheduler } from 'anarchon';
    const [backend, instanceId] = [process.env.STORE, process.env.INSTANCE];
    const scheduler = new Scheduler({ backend, instanceId, logger: false });
    scheduler.at('block', Number(process.env.AT), (ctx) => {
      console.log('entered');
      const until = performance.now() + 3_300;
      while (performance.now() < until);
      return ctx.attempt;
    }, { leaseMs: 1_000, jitterMs: 0 });
    scheduler.on('finished', () => console.log('finished'));
    await scheduler.start({ signals: true });
  `;
  const store = `sqlite:${join(start(t, '').cwd, 'jobs.db')}`;
  const at = String(Date.now() + 1_500);
  const replicas = ['a', 'b'].map((INSTANCE) =>
    start(t, code, { env: { STORE: store, AT: at, INSTANCE } }),
  );
  await Promise.race(replicas.map((replica) => replica.printed('finished')));
  for (const replica of replicas) replica.child.kill('SIGTERM');
  const ends = await Promise.all(replicas.map((replica) => replica.ended));
  const outputs = ends.map((end) => end.stdout).join('');
  assert.equal(outputs.match(/entered/g)?.length, 1, outputs);
  const { Scheduler } = await import('anarchon');
  const reader = new Scheduler({ backend: store, logger: false });
  const [record] = await reader.history('block');
  assert.deepEqual([record.status, record.attempt, record.output], ['succeeded', 1, '1']);
  await reader.stop();
});
