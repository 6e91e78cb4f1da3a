// PostgreSQL through the program's own driver: node-postgres and Postgres.js, on a real server.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { fromPg, fromPostgresJs, PostgresBackend, Scheduler } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import pg from 'pg';
import postgres from 'postgres';
import { collecting, started } from './running.mjs';
import { PostgresStranger } from './stores/stranger.mjs';
import { tally } from './tally.mjs';

const URL_OF_SERVER =
  process.env.ANARCHON_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/test';

async function absence() {
  const client = new pg.Client({
    connectionString: URL_OF_SERVER,
    connectionTimeoutMillis: 2_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.end();
    return false;
  } catch (error) {
    if (process.env.CI === 'true') throw error;
    return `no PostgreSQL at ${new URL(URL_OF_SERVER).host}: ${error.message}`;
  }
}

const skip = await absence();

// A driver, how it is opened, and the same as the client that a backend takes.
const DRIVERS = [
  {
    name: 'node-postgres',
    open: (name) =>
      new pg.Pool({ connectionString: URL_OF_SERVER, max: 4, application_name: name }),
    client: fromPg,
    count: async (pool) => (await pool.query('SELECT 1 AS one')).rows.length,
    error: pg.DatabaseError,
    close: (pool) => pool.end(),
    comesBack: true,
  },
  {
    name: 'Postgres.js',
    open: (name) => postgres(URL_OF_SERVER, { max: 4, connection: { application_name: name } }),
    client: fromPostgresJs,
    count: async (sql) => (await sql`SELECT 1 AS one`).length,
    error: postgres.PostgresError,
    // Without a limit it waits for what it will never answer.
    close: (sql) => sql.end({ timeout: 1 }),
    // What it is asked for just after the server ended its connections it sometimes never answers;
    // to us that is an unknown answer, call after call.
    comesBack: false,
  },
];

/** A driver that is closed when the test is over; the server shows its connections by the name. */
function opened(t, driver, name = 'anarchon-tests') {
  const database = driver.open(name);
  t.after(() => driver.close(database));
  return database;
}

/** Tables of the test's own, dropped after it. */
function tables(t) {
  const base = `t${randomBytes(6).toString('hex')}`;
  const table = `${base}_runs`;
  t.after(async () => {
    const client = new pg.Client({ connectionString: URL_OF_SERVER });
    await client.connect();
    const all = [table, `${base}_jobs`, `${base}_schema`, `${table}_locks`];
    await client.query(`DROP TABLE IF EXISTS ${all.join()}`);
    await client.end();
  });
  return table;
}

for (const driver of DRIVERS) {
  describe(driver.name, { skip }, () => {
    test('keeps the whole contract, with a pool for each client', async (t) => {
      const table = tables(t);
      const pools = [opened(t, driver), opened(t, driver)];
      let next = 0;
      const open = () => {
        next += 1;
        return new PostgresBackend({ database: driver.client(pools[next % 2]), table });
      };
      const report = await checkBackend(open, { complete: true, rounds: 5, histories: 5 });
      tally(`postgres over ${driver.name}`, report);
      assert.deepEqual(
        report.cases.filter(({ status }) => status !== 'passed'),
        [],
      );
    });

    test('keeps the contract for a database that its user describes', async (t) => {
      const table = tables(t);
      const client = driver.client(opened(t, driver));
      const open = () => new PostgresStranger(() => ({ client, owned: false }), table);
      const report = await checkBackend(open, { rounds: 3, histories: 2, steps: 20, clients: 2 });
      tally(`SqlBackend over PostgreSQL by ${driver.name}`, report);
    });

    test('schedulers that race run each slot once, the store of ours among them', async (t) => {
      const table = tables(t);
      const { handler, done, slots } = collecting(8);
      const url = new URL(URL_OF_SERVER);
      url.searchParams.set('table', table);
      const backends = [
        new PostgresBackend({ database: driver.client(opened(t, driver)), table }),
        new PostgresBackend({ database: driver.client(opened(t, driver)), table }),
        new PostgresBackend(url.href),
      ];
      const all = [];
      for (const [index, backend] of backends.entries()) {
        const options = { when: '200ms', handler, instanceId: 'abc'[index] };
        all.push(await started(t, backend, options));
      }
      await done;
      for (const one of all) await one.stop();
      assert.equal(new Set(slots).size, slots.length, `${slots}`);
      const [first, ...others] = await Promise.all(all.map((one) => one.history('job')));
      // A slot that fell into a run of another replica is there as skipped.
      const ran = first.filter(({ status }) => status === 'succeeded');
      assert.deepEqual(
        ran.map(({ slot }) => slot),
        slots.toSorted((a, b) => b - a),
      );
      for (const other of others) assert.deepEqual(other, first);
      for (const one of all) await one.stop();
    });

    test('what was not opened is not closed', async (t) => {
      const database = opened(t, driver);
      const backend = new PostgresBackend({ database: driver.client(database), table: tables(t) });
      for (const instanceId of ['a', 'b']) {
        const scheduler = await started(t, backend, { instanceId });
        assert.equal((await scheduler.runNow('job')).by, instanceId);
        await scheduler.stop();
        assert.equal(await driver.count(database), 1, 'the driver still answers');
      }
    });

    test('what the driver throws reaches the user as the same object', async (t) => {
      const table = tables(t);
      const database = opened(t, driver);
      const thrown = new Set();
      const watched = (queryable) => ({
        all: (sql, params) =>
          queryable.all(sql, params).catch((error) => {
            thrown.add(error);
            throw error;
          }),
      });
      const client = driver.client(database);
      const watching = {
        ...watched(client),
        transaction: (fn) => client.transaction((tx) => fn(watched(tx))),
      };
      const scheduler = await started(t, new PostgresBackend({ database: watching, table }));
      await client.all(`ALTER TABLE ${table} RENAME TO ${table}_locks`, []);
      for (const call of [() => scheduler.history('job'), () => scheduler.runNow('job')]) {
        const error = await call().catch((caught) => caught);
        assert.ok(error instanceof driver.error, String(error));
        assert.equal(error.code, '42P01');
        assert.ok(thrown.has(error), 'another object than the driver threw');
      }
      await client.all(`ALTER TABLE ${table}_locks RENAME TO ${table}`, []);
      assert.equal((await scheduler.runNow('job')).status, 'succeeded');
    });

    const orSaysWhy = { skip: !driver.comesBack && 'the driver may never answer again' };

    test('connections that the server ends are made again by the driver', orSaysWhy, async (t) => {
      const table = tables(t);
      const database = opened(t, driver, table);
      database.on?.('error', () => {});
      const scheduler = await started(
        t,
        new PostgresBackend({ database: driver.client(database), table }),
      );
      assert.equal((await scheduler.runNow('job')).status, 'succeeded');
      const killer = new pg.Client({ connectionString: URL_OF_SERVER });
      await killer.connect();
      const { rows } = await killer.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = $1`,
        [table],
      );
      await killer.end();
      assert.ok(rows.length >= 1, 'the driver had a connection');
      // The first call may meet a connection of which the driver does not know yet.
      const records = [];
      for (let call = 0; call < 10 && records.length === 0; call += 1) {
        records.push(
          ...(await scheduler.runNow('job').then(
            (one) => [one],
            () => [],
          )),
        );
      }
      assert.deepEqual(
        records.map(({ status }) => status),
        ['succeeded'],
      );
    });

    test('createTables: false creates nothing, and ddl() says what is needed', async (t) => {
      const client = driver.client(opened(t, driver));
      const backend = new PostgresBackend({
        database: client,
        table: tables(t),
        createTables: false,
      });
      const scheduler = new Scheduler({ backend, logger: false });
      await assert.rejects(scheduler.start());
      await scheduler.stop();
      for (const statement of backend.ddl()) await client.all(statement, []);
      const again = await started(t, backend);
      assert.equal((await again.runNow('job')).status, 'succeeded');
    });
  });
}
