// SQLite through the program's own drivers: better-sqlite3, and node:sqlite where Node.js has it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { AnarchonError, fromSqliteDatabase, Scheduler, SqliteBackend } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import Database from 'better-sqlite3';
import { folder } from './program.mjs';
import { collecting } from './running.mjs';
import { SqliteStranger } from './stores/stranger.mjs';
import { tally } from './tally.mjs';

// Node.js 20 has none.
const builtIn = await import('node:sqlite').catch(() => undefined);
const DRIVERS = [
  { name: 'better-sqlite3', open: (file) => new Database(file), skip: false },
  {
    name: 'node:sqlite',
    open: (file) => new builtIn.DatabaseSync(file),
    skip: builtIn ? false : `Node.js ${process.version} has no node:sqlite`,
  },
];

const BRIEF = { rounds: 3, histories: 2, steps: 20, clients: 2 };

function sqlite(t, file = join(folder(t), 'jobs.db'), { open } = DRIVERS[0]) {
  const database = open(file);
  // A test need not outlive a loss of power.
  database.exec('PRAGMA synchronous = OFF');
  t.after(() => database.close());
  return database;
}

/** Calls, and keeps what is thrown. */
function watchedCall(thrown, call) {
  try {
    return call();
  } catch (error) {
    thrown.add(error);
    throw error;
  }
}

/** A scheduler that has run a job by hand; the record, and what its history shows. */
async function ran(backend, instanceId = 'a') {
  const scheduler = new Scheduler({ backend, instanceId, logger: false });
  scheduler.every('job', '1h', (ctx) => ctx.instanceId);
  await scheduler.start();
  const record = await scheduler.runNow('job');
  const history = await scheduler.history('job');
  await scheduler.stop();
  return { record, history };
}

test('what was opened is closed, with the last scheduler', async (t) => {
  const file = join(folder(t), 'owned.db');
  const opened = [];
  const connect = () => {
    opened.push(new Database(file));
    return { client: fromSqliteDatabase(opened.at(-1)), owned: true };
  };
  const open = () => opened.filter((database) => database.open).length;
  const backend = new SqliteStranger(connect);
  const reader = new Scheduler({ backend, logger: false });
  await assert.rejects(reader.history('job'), /Start a scheduler on this store once/);
  assert.equal(open(), 0, 'one that cannot be used is closed');
  const starter = new Scheduler({ backend, logger: false });
  await starter.start();
  assert.deepEqual(await reader.history('job'), []);
  await starter.stop();
  assert.equal(open(), 1, 'the reader is still there');
  await reader.stop();
  assert.equal(open(), 0);
});

test('a subclass may override members of the contract and call ours', async (t) => {
  const client = fromSqliteDatabase(sqlite(t));
  const asked = [];
  class Watched extends SqliteStranger {
    runs = undefined;
    async claim(input) {
      asked.push(input.job);
      return super.claim(input);
    }
  }
  const backend = new Watched(() => ({ client, owned: false }), 'watched_runs');
  const scheduler = new Scheduler({ backend, logger: false });
  scheduler.every('job', '1s', () => {}, { jitterMs: 0 });
  await scheduler.start();
  await once(scheduler, 'finished');
  await scheduler.stop();
  assert.ok(asked.length >= 1 && asked.every((job) => job === 'job'));
});

for (const [what, change, message] of [
  [
    'connect() without a client',
    { open: () => ({ owned: true }) },
    /database is undefined; allowed is a client/,
  ],
  [
    'connect() without owned',
    { open: () => ({ client: {} }) },
    /connect\(\) resolved to .*\{ client, owned \}/,
  ],
  [
    'a client without transaction',
    { open: () => ({ client: { all() {} }, owned: true }) },
    /allowed is a client/,
  ],
]) {
  test(`${what} is refused by name`, async () => {
    const backend = Object.assign(new SqliteStranger(), change);
    const scheduler = new Scheduler({ backend, logger: false });
    await assert.rejects(scheduler.start(), { code: 'INVALID_OPTION', message });
  });
}

test('what connect and checkServer throw leaves start() as it is', async (t) => {
  const client = fromSqliteDatabase(sqlite(t));
  for (const member of ['connect', 'checkServer']) {
    const thrown = Object.assign(new Error(member), { code: 'E_MINE' });
    const backend = new SqliteStranger(() => ({ client, owned: false }));
    backend[member] = () => {
      throw thrown;
    };
    const scheduler = new Scheduler({ backend, logger: false });
    const error = await scheduler.start().catch((e) => e);
    assert.equal(error, thrown);
  }
});

for (const driver of DRIVERS) {
  describe(driver.name, { skip: driver.skip }, () => {
    test('keeps the whole contract', async (t) => {
      const file = join(folder(t), 'jobs.db');
      const open = () =>
        new SqliteBackend({ database: fromSqliteDatabase(sqlite(t, file, driver)) });
      const report = await checkBackend(open, { ...BRIEF, complete: true });
      tally(`sqlite over ${driver.name}`, report);
      assert.deepEqual(
        report.cases.filter(({ status }) => status !== 'passed'),
        [],
      );
    });

    test('a database that was handed over is not closed, and its tables are as they are named', async (t) => {
      const database = sqlite(t, undefined, driver);
      const backend = new SqliteBackend({
        database: fromSqliteDatabase(database),
        namespace: 'shop',
        table: 'shop_runs',
      });
      await ran(backend);
      const names = database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        .all()
        .map((row) => row.name);
      assert.ok(names.includes('shop_runs') && names.includes('shop_jobs'), names.join());
    });

    test('a store of ours and one over a driver share a file', async (t) => {
      const file = join(folder(t), 'jobs.db');
      const ours = await ran(new SqliteBackend(file), 'ours');
      const database = fromSqliteDatabase(sqlite(t, file, driver));
      const theirs = await ran(new SqliteBackend({ database }), 'theirs');
      assert.deepEqual(theirs.history.map(({ by }) => by).sort(), ['ours', 'theirs']);
      assert.equal(ours.history.length, 1);
    });

    test('schedulers that race run each slot once', async (t) => {
      const file = join(folder(t), 'jobs.db');
      const { handler, done, slots } = collecting(6);
      const all = ['a', 'b', 'c'].map((instanceId) => {
        const database = fromSqliteDatabase(sqlite(t, file, driver));
        const backend = new SqliteBackend({ database });
        const one = new Scheduler({ backend, instanceId, logger: false });
        one.every('job', '200ms', handler, { jitterMs: 0 });
        return one;
      });
      for (const one of all) await one.start();
      await done;
      for (const one of all) await one.stop();
      assert.equal(new Set(slots).size, slots.length, `${slots}`);
    });

    test('what the driver throws reaches the user as the same object', async (t) => {
      const database = sqlite(t, undefined, driver);
      const thrown = new Set();
      const watch =
        (call) =>
        (...args) =>
          watchedCall(thrown, () => call(...args));
      const watched = {
        prepare: watch((sql) => {
          const statement = database.prepare(sql);
          const all = watch((...params) => statement.all(...params));
          return {
            reader: statement.reader,
            all,
            run: watch((...params) => statement.run(...params)),
          };
        }),
        exec: watch((sql) => database.exec(sql)),
        close: () => {},
      };
      const backend = new SqliteBackend({ database: fromSqliteDatabase(watched) });
      const scheduler = new Scheduler({ backend, logger: false });
      scheduler.on('error', () => {});
      scheduler.every('job', '1h', () => {});
      await scheduler.start();
      database.exec('ALTER TABLE anarchon_runs RENAME TO gone');
      for (const call of [() => scheduler.history('job'), () => scheduler.runNow('job')]) {
        const error = await call().catch((caught) => caught);
        assert.match(error.message, /no such table: anarchon_runs/);
        assert.ok(thrown.has(error), 'another object than the driver threw');
      }
      database.exec('ALTER TABLE gone RENAME TO anarchon_runs');
      assert.equal((await scheduler.runNow('job')).status, 'succeeded');
      await scheduler.stop();
    });
  });
}

test('createTables: false creates nothing, and ddl() says what is needed', async (t) => {
  const database = sqlite(t);
  const client = fromSqliteDatabase(database);
  const backend = new SqliteBackend({ database: client, createTables: false });
  await assert.rejects(new Scheduler({ backend, logger: false }).history('job'));
  assert.deepEqual(database.prepare('SELECT name FROM sqlite_master').all(), []);
  for (const statement of backend.ddl()) database.exec(statement);
  assert.equal((await ran(backend)).record.status, 'succeeded');
});

test('what a driver throws reaches the user as it is', async (t) => {
  const thrown = Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
  const client = fromSqliteDatabase(sqlite(t));
  let broken = false;
  const failing =
    (call) =>
    (...args) =>
      broken ? Promise.reject(thrown) : call(...args);
  const database = { all: failing(client.all), transaction: failing(client.transaction) };
  const scheduler = new Scheduler({ backend: new SqliteBackend({ database }), logger: false });
  scheduler.on('error', () => {});
  scheduler.every('job', '1h', () => {});
  await scheduler.start();
  broken = true;
  for (const call of [() => scheduler.history('job'), () => scheduler.runNow('job')]) {
    assert.equal(await call().catch((error) => error), thrown);
  }
  broken = false;
  assert.equal((await scheduler.runNow('job')).status, 'succeeded');
  await scheduler.stop();
});

test('a driver that throws inside a transaction, and one that wraps, lose no identity', async (t) => {
  const thrown = new RangeError('inside');
  const client = fromSqliteDatabase(sqlite(t));
  let broken = false;
  const database = {
    all: client.all,
    transaction: async (fn) => {
      try {
        await client.transaction((tx) =>
          fn({
            all: (sql, params) => {
              if (broken) throw thrown;
              return tx.all(sql, params);
            },
          }),
        );
      } catch (error) {
        throw new Error('transaction failed', { cause: error });
      }
    },
  };
  const backend = new SqliteBackend({ database });
  const scheduler = new Scheduler({ backend, logger: false });
  scheduler.on('error', () => {});
  scheduler.every('job', '1h', () => {});
  await scheduler.start();
  broken = true;
  assert.equal(await scheduler.runNow('job').catch((error) => error), thrown);
  broken = false;
  await scheduler.stop();
});

test('drivers may run a transaction twice, answer at once, and bring values of many kinds', async (t) => {
  const client = fromSqliteDatabase(sqlite(t));
  const kinds = [BigInt, String, (n) => n, (n) => Buffer.from(String(n))];
  let turn = 0;
  const dress = (rows) =>
    rows.map((row) =>
      Object.fromEntries(
        Object.entries(row).map(([name, value]) => {
          turn += 1;
          if (typeof value === 'string') return [name, turn % 2 ? value : Buffer.from(value)];
          return [name, typeof value === 'number' ? kinds[turn % kinds.length](value) : value];
        }),
      ),
    );
  const dressed = (queryable) => ({
    all: async (sql, params) => dress(await queryable.all(sql, params)),
  });
  class Retry extends Error {}
  const database = {
    ...dressed(client),
    transaction: async (fn) => {
      // Rolled back, as after a deadlock, and run again.
      await client
        .transaction(async (tx) => {
          await fn(dressed(tx));
          throw new Retry();
        })
        .catch((error) => assert.ok(error instanceof Retry));
      return client.transaction((tx) => fn(dressed(tx)));
    },
  };
  await checkBackend(() => new SqliteBackend({ database }), BRIEF);
});

test('a transaction that never calls its function is refused by name', async (t) => {
  const client = fromSqliteDatabase(sqlite(t));
  const database = { ...client, transaction: async () => {} };
  const scheduler = new Scheduler({
    backend: new SqliteBackend({ database }),
    logger: false,
  });
  scheduler.on('error', () => {});
  scheduler.every('job', '1h', () => {});
  await assert.rejects(
    scheduler.start().then(() => scheduler.ready()),
    /transaction\(\) returned without calling the function/,
  );
  await scheduler.stop();
});

for (const [what, database] of [
  ['nothing', undefined],
  ['a driver as it is', new Database(':memory:')],
  ['a text', 'jobs.db'],
]) {
  test(`${what} is no client, and the message names the adapters`, () => {
    assert.throws(
      () => new SqliteBackend({ database }),
      (error) =>
        error instanceof AnarchonError &&
        error.code === 'INVALID_OPTION' &&
        /all\(sql, params\) and transaction\(fn\); fromSqliteDatabase, fromPg/.test(error.message),
    );
  });
}
