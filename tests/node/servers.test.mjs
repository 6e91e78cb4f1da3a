// The stores on servers, by URL and by class. A server that is not there is a skip, but in CI.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  MySqlBackend,
  NatsBackend,
  PostgresBackend,
  RabbitMqBackend,
  RedisBackend,
  Scheduler,
} from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import { collecting } from './running.mjs';
import { tally } from './tally.mjs';

// Namespaces of their own for each run, so that no test meets the records of another.
const RUN = `node-${randomBytes(6).toString('hex')}`;

// The streams of RabbitMQ do not go by themselves.
after(() => {
  const script = fileURLToPath(new URL('../forget-rabbitmq.sh', import.meta.url));
  assert.equal(spawnSync(script, [`anarchon.${RUN}-`]).status, 0);
});

const BRIEF = { clients: 2, rounds: 2, histories: 2 };

// One entry a store; `check`: how thoroughly the contract is asked of it from here.
const SERVERS = [
  {
    name: 'postgres',
    class: PostgresBackend,
    check: { complete: true, rounds: 5, histories: 5 },
    url: process.env.ANARCHON_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/test',
    other: 'mysql://localhost/test',
  },
  {
    name: 'mysql',
    class: MySqlBackend,
    check: BRIEF,
    url: process.env.ANARCHON_TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test',
    other: 'postgres://localhost/test',
  },
  {
    name: 'redis',
    class: RedisBackend,
    check: BRIEF,
    url: process.env.ANARCHON_TEST_REDIS_URL ?? 'redis://127.0.0.1:6379/0',
    other: 'rabbitmq://localhost',
  },
  {
    name: 'nats',
    class: NatsBackend,
    check: BRIEF,
    url: process.env.ANARCHON_TEST_NATS_URL ?? 'nats://127.0.0.1:4222',
    other: 'redis://localhost',
  },
  {
    name: 'rabbitmq',
    class: RabbitMqBackend,
    url: process.env.ANARCHON_TEST_RABBITMQ_URL ?? 'amqp://guest:guest@127.0.0.1:5672',
    other: 'redis://localhost',
    check: BRIEF,
    // Claims only: a job cannot be forgotten, and the cases about leases do not apply.
    leases: false,
  },
];

const withPassword = (url) => url.replace(/\/\/([^@/]*@)?/, '//me:hunter2@');

for (const server of SERVERS) {
  describe(server.name, () => {
    const namespace = `${RUN}-${server.name}`;

    const reached = async (t) => {
      const backend = new server.class({ url: server.url, namespace });
      try {
        await backend.init();
        return true;
      } catch (error) {
        if (process.env.CI) throw error;
        t.skip(`no server: ${error.message}`);
        return false;
      } finally {
        await backend.close();
      }
    };

    test('two replicas share the slots', async (t) => {
      if (!(await reached(t))) return;
      const { handler, done, slots } = collecting(5);
      const replicas = ['a', 'b'].map(
        (instanceId) =>
          new Scheduler({
            backend: server.url,
            namespace,
            instanceId,
            logger: false,
          }),
      );
      for (const replica of replicas) {
        replica.every('tick', '200ms', handler, { jitterMs: 20 });
        await replica.start();
      }
      await done;
      for (const replica of replicas) await replica.stop();
      assert.equal(new Set(slots).size, slots.length, `${slots}`);
      const [one] = replicas;
      assert.ok(one.backend instanceof server.class);
      assert.equal(one.backend.name, server.name);
      if (server.leases !== false) await one.forget('tick');
      await one.stop();
    });

    test('the contract holds for clients made by class', async (t) => {
      if (!(await reached(t))) return;
      const open = () => new server.class({ url: server.url, namespace });
      const report = await checkBackend(open, server.check);
      tally(server.name, report);
      const applies = (one) => server.leases !== false || !/has no leases/.test(one.message ?? '');
      const cases = report.cases.filter(applies);
      assert.ok(cases.length >= 20, `${cases.length} cases`);
      assert.deepEqual(
        cases.filter((one) => one.status !== 'passed'),
        [],
      );
    });

    test('what is wrong in a URL or an option is refused, and no secret is shown', () => {
      for (const options of [
        server.other,
        withPassword(server.url).replace(/$/, '?pol=4'),
        { url: withPassword(server.url), pol: 4 },
        { url: withPassword(server.url), pool: 0 },
        { pool: 4 },
      ]) {
        assert.throws(
          () => new server.class(options),
          (error) => error.code === 'INVALID_OPTION' && !error.message.includes('hunter2'),
          JSON.stringify(options),
        );
      }
    });
  });
}

describe('rabbitmq alone', () => {
  const { url } = SERVERS.find((server) => server.name === 'rabbitmq');

  test('it has no leases and a window, by which jobs are judged', () => {
    const backend = new RabbitMqBackend({ url, dedupeWindowMs: 5_000, channels: 2 });
    assert.equal(backend.dedupeWindowMs, 5_000);
    assert.equal(backend.runs, undefined);
    assert.equal(new RabbitMqBackend(url).dedupeWindowMs, 3_600_000);
    const scheduler = new Scheduler({ backend, logger: false });
    assert.throws(
      () => scheduler.every('late', '1m', () => {}, { jitterMs: 1_000, maxLateMs: 4_000 }),
      (error) => error.code === 'DEDUPE_WINDOW_TOO_SHORT' && error.message.includes('5000'),
    );
    for (const options of [{ overlap: 'skip' }, { catchUp: 'latest' }]) {
      assert.throws(
        () => scheduler.every('leased', '1m', () => {}, { maxLateMs: 1_000, ...options }),
        { code: 'LEASES_REQUIRED' },
      );
    }
  });

  test('a run is in the history of every replica', async (t) => {
    const namespace = `${RUN}-alone`;
    const [one, two] = ['a', 'b'].map((instanceId) => {
      const backend = new RabbitMqBackend({ url, namespace });
      const scheduler = new Scheduler({ backend, instanceId, logger: false });
      scheduler.every('report', '1h', () => ({ rows: 3 }));
      return scheduler;
    });
    try {
      await one.start();
    } catch (error) {
      if (process.env.CI) throw error;
      t.skip(`no server: ${error.message}`);
      return;
    }
    const record = await one.runNow('report');
    assert.equal(record.status, 'succeeded');
    const shown = await two.history('report');
    assert.deepEqual(
      shown.map((run) => [run.by, run.status, JSON.parse(run.output)]),
      [['a', 'succeeded', { rows: 3 }]],
    );
    await one.stop();
    await two.stop();
  });
});
