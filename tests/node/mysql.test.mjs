// MySQL and MariaDB through the program's own driver, mysql2, on a real server.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { fromMysql2, MySqlBackend } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import { createPool } from 'mysql2/promise';
import { collecting, started } from './running.mjs';
import { tally } from './tally.mjs';

const URL_OF_SERVER = process.env.ANARCHON_TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test';

/** A pool that is closed when the test is over. */
function opened(t) {
  const pool = createPool({ uri: URL_OF_SERVER, connectionLimit: 4 });
  t.after(() => pool.end());
  return pool;
}

async function absence() {
  const pool = createPool({ uri: URL_OF_SERVER, connectTimeout: 2_000 });
  try {
    await pool.query('SELECT 1');
    return false;
  } catch (error) {
    if (process.env.CI === 'true') throw error;
    return `no MySQL at ${new URL(URL_OF_SERVER).host}: ${error.message}`;
  } finally {
    await pool.end();
  }
}

const skip = await absence();

/** Tables of the test's own, dropped after it. */
function tables(t) {
  const base = `t${randomBytes(6).toString('hex')}`;
  const table = `${base}_runs`;
  t.after(async () => {
    const pool = createPool({ uri: URL_OF_SERVER });
    await pool.query(`DROP TABLE IF EXISTS ${table}, ${base}_jobs, ${base}_schema`);
    await pool.end();
  });
  return table;
}

describe('mysql2', { skip }, () => {
  test('keeps the whole contract, with a pool for each client', async (t) => {
    const table = tables(t);
    const pools = [opened(t), opened(t)];
    let next = 0;
    const open = () => {
      next += 1;
      return new MySqlBackend({ database: fromMysql2(pools[next % 2]), table });
    };
    const report = await checkBackend(open, { complete: true, rounds: 5, histories: 5 });
    tally('mysql over mysql2', report);
    assert.deepEqual(
      report.cases.filter(({ status }) => status !== 'passed'),
      [],
    );
  });

  test('schedulers that race run each slot once, the store of ours among them', async (t) => {
    const table = tables(t);
    const url = new URL(URL_OF_SERVER);
    url.searchParams.set('table', table);
    const backends = [
      new MySqlBackend({ database: fromMysql2(opened(t)), table }),
      new MySqlBackend({ database: fromMysql2(opened(t)), table }),
      new MySqlBackend(url.href),
    ];
    const { handler, done, slots } = collecting(8);
    const all = [];
    for (const [index, backend] of backends.entries()) {
      all.push(await started(t, backend, { when: '200ms', handler, instanceId: 'abc'[index] }));
    }
    await done;
    for (const one of all) await one.stop();
    assert.equal(new Set(slots).size, slots.length, `${slots}`);
    const [first, ...others] = await Promise.all(all.map((one) => one.history('job')));
    for (const other of others) assert.deepEqual(other, first);
    for (const one of all) await one.stop();
  });

  test('a pool that was handed over is not closed, nor a transaction of it left open', async (t) => {
    const [pool, table] = [opened(t), tables(t)];
    const client = fromMysql2(pool);
    const backend = new MySqlBackend({ database: client, table });
    const scheduler = await started(t, backend);
    assert.equal((await scheduler.runNow('job')).status, 'succeeded');
    await scheduler.stop();
    const thrown = new RangeError('inside');
    const failing = client.transaction(async (tx) => {
      await tx.all(`DELETE FROM ${table}`, []);
      throw thrown;
    });
    assert.equal(await failing.catch((error) => error), thrown);
    const [rows] = await pool.query(`SELECT COUNT(*) AS runs FROM ${table}`);
    assert.deepEqual(rows, [{ runs: 1 }]);
  });

  test('what the driver throws reaches the user as it is', async (t) => {
    const table = tables(t);
    const pool = opened(t);
    const scheduler = await started(t, new MySqlBackend({ database: fromMysql2(pool), table }));
    await pool.query(`RENAME TABLE ${table} TO ${table}_gone`);
    for (const call of [() => scheduler.history('job'), () => scheduler.runNow('job')]) {
      assert.equal((await call().catch((error) => error)).code, 'ER_NO_SUCH_TABLE');
    }
    await pool.query(`RENAME TABLE ${table}_gone TO ${table}`);
    assert.equal((await scheduler.runNow('job')).status, 'succeeded');
  });
});
