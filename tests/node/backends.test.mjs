// The contract, held by the backends that come with the package when a program calls them.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { AnarchonError, MemoryBackend, Scheduler, SqliteBackend } from 'anarchon';
import { backendCases, CheckFailedError, checkBackend } from 'anarchon/testing';
import { folder } from './program.mjs';
import { tally } from './tally.mjs';

const counts = ({ cases }) => {
  const count = (status) => cases.filter((one) => one.status === status).length;
  return { passed: count('passed'), failed: count('failed'), skipped: count('skipped') };
};

test('MemoryBackend keeps the whole contract', async () => {
  const store = new MemoryBackend();
  const report = await checkBackend(() => store, { complete: true, histories: 5, rounds: 5 });
  tally('memory', report);
  // All cases of the table, and the one about closing.
  assert.deepEqual(counts(report), { passed: backendCases().length + 1, failed: 0, skipped: 0 });
});

test('SqliteBackend keeps the whole contract', async (t) => {
  const path = join(folder(t), 'jobs.db');
  const report = await checkBackend(() => new SqliteBackend(path), {
    complete: true,
    histories: 5,
    rounds: 3,
  });
  tally('sqlite', report);
  assert.deepEqual(counts(report), { passed: backendCases().length + 1, failed: 0, skipped: 0 });
});

test('a subclass that overrides a member is called through it', async () => {
  class Counting extends MemoryBackend {
    calls = 0;

    async saveResult(...args) {
      this.calls += 1;
      return super.saveResult(...args);
    }

    async history(...args) {
      this.calls += 1;
      return super.history(...args);
    }
  }
  const backend = new Counting();
  const scheduler = new Scheduler({ backend, logger: false });
  scheduler.every('job', '1h', () => 'counted');
  await scheduler.start();
  await scheduler.runNow('job');
  assert.equal((await scheduler.history('job'))[0].output, '"counted"');
  assert.ok(backend.calls > 0);
  await scheduler.stop();
});

test('a failing backend is told with what it did', async () => {
  class Generous extends MemoryBackend {
    async claim() {
      return true;
    }
  }
  const store = new Generous();
  await assert.rejects(
    checkBackend(() => store, { only: ['race'], rounds: 2 }),
    (error) => {
      assert.ok(error instanceof CheckFailedError);
      assert.ok(counts(error.report).failed > 0);
      assert.match(error.message, /FAILED/);
      return true;
    },
  );
});

test('an error of opening a client fails the check', async () => {
  const open = () => {
    throw new Error('no such server');
  };
  await assert.rejects(checkBackend(open), /no such server/);
  await assert.rejects(checkBackend('memory:'), { code: 'INVALID_OPTION' });
  await assert.rejects(checkBackend(open, { round: 1 }), /did you mean "rounds"/);
});

test('arguments that cannot be read are refused by the name of the member', async () => {
  const backend = new MemoryBackend();
  await assert.rejects(
    backend.claim({ slot: 1 }),
    (error) =>
      error instanceof AnarchonError &&
      error.code === 'INVALID_OPTION' &&
      /claim.*`job`/.test(error.message),
  );
});

test('SqliteBackend tells the statements that create its tables', async (t) => {
  const path = join(folder(t), 'jobs.db');
  const statements = new SqliteBackend({ path, table: 'my_runs' }).ddl();
  assert.ok(statements.length >= 2);
  assert.ok(statements.some((statement) => /CREATE TABLE.*my_runs/s.test(statement)));
  const hand = new Scheduler({
    backend: new SqliteBackend({ path, createTables: false }),
    logger: false,
  });
  await assert.rejects(hand.start(), { code: 'BACKEND_REFUSED' });
});

test('schedulers that share an object open it once and close it with the last', async () => {
  class Watched extends MemoryBackend {
    seen = [];

    async init() {
      this.seen.push('init');
      await super.init();
    }

    async close() {
      this.seen.push('close');
      await super.close();
    }
  }
  const backend = new Watched();
  const [one, two] = ['a', 'b'].map(
    (instanceId) => new Scheduler({ backend, instanceId, logger: false }),
  );
  await Promise.all([one.start(), two.start()]);
  await one.stop();
  assert.deepEqual(backend.seen, ['init']);
  await two.stop();
  assert.deepEqual(backend.seen, ['init', 'close']);
});
