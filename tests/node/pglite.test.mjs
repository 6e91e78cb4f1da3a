// A real stranger: PGlite, PostgreSQL inside the process, of which the library knows nothing.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import { Scheduler } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import { PostgresStranger } from './stores/stranger.mjs';
import { tally } from './tally.mjs';

/** A client of PGlite, which answers with rows of its own. */
const fromPglite = (database) => ({
  all: async (sql, params) => (await database.query(sql, params)).rows,
  transaction: (fn) =>
    database.transaction((tx) =>
      fn({ all: async (sql, params) => (await tx.query(sql, params)).rows }),
    ),
  close: () => database.close(),
});

const pglite = new PGlite();
// A statement takes it milliseconds: enough of the contract to see that every kind of call works. The
// whole of it is asked of the same description on a real server.
const BRIEF = {
  rounds: 2,
  clients: 2,
  only: [
    'race',
    'repeat safety',
    'rule 1',
    'rule 4',
    'rule 10',
    'heartbeat',
    'finish',
    'release',
    'manual',
  ],
};
after(() => pglite.close());

test('a database that the library does not know keeps the contract', async () => {
  const open = () => new PostgresStranger(() => ({ client: fromPglite(pglite), owned: false }));
  const report = await checkBackend(open, BRIEF);
  tally('SqlBackend over PGlite', report);
  assert.deepEqual(
    report.cases.filter(({ status }) => status !== 'passed'),
    [],
  );
});

test('a stranger of its own tables: runs, history, and what is not owned stays open', async () => {
  const backend = new PostgresStranger(
    () => ({ client: fromPglite(pglite), owned: false }),
    'other_runs',
  );
  const scheduler = new Scheduler({ backend, instanceId: 'a', logger: false });
  scheduler.every('job', '1h', (ctx) => ctx.instanceId);
  await scheduler.start();
  const record = await scheduler.runNow('job');
  const history = await scheduler.history('job');
  await scheduler.stop();
  assert.deepEqual([record.status, record.output, history.length], ['succeeded', '"a"', 1]);
  assert.equal(pglite.closed, false);
  const { rows } = await pglite.query(
    "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'other%' ORDER BY 1",
  );
  const names = rows.map((row) => row.table_name);
  assert.ok(names.includes('other_runs') && names.includes('other_jobs'), names.join());
  assert.ok(names.includes('other_runs_locks'), names.join());
});
