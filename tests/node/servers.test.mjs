// The stores on servers, by URL and by class. A server that is not there is a skip, but in CI.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { MySqlBackend, NatsBackend, PostgresBackend, RedisBackend, Scheduler } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import { tally } from './tally.mjs';

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
    url: process.env.ANARCHON_TEST_NATS_URL ?? 'nats://127.0.0.1:4222',
    other: 'redis://localhost',
  },
];

const withPassword = (url) => url.replace(/\/\/([^@/]*@)?/, '//me:hunter2@');

for (const server of SERVERS) {
  describe(server.name, () => {
    // A namespace of its own for each run, so that no test meets the records of another.
    const namespace = `node-${randomBytes(6).toString('hex')}`;

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
      const slots = [];
      let enough;
      const ran = new Promise((resolve) => {
        enough = resolve;
      });
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
        replica.every(
          'tick',
          '200ms',
          (ctx) => {
            slots.push(ctx.slot);
            if (slots.length >= 5) enough();
          },
          { jitterMs: 20 },
        );
        await replica.start();
      }
      await ran;
      for (const replica of replicas) await replica.stop();
      assert.equal(new Set(slots).size, slots.length, `${slots}`);
      const [one] = replicas;
      assert.ok(one.backend instanceof server.class);
      assert.equal(one.backend.name, server.name);
      await one.forget('tick');
      await one.stop();
    });

    test('the contract holds for clients made by class', async (t) => {
      if (!(await reached(t))) return;
      const open = () => new server.class({ url: server.url, namespace });
      const report = await checkBackend(open, server.check);
      tally(server.name, report);
      assert.deepEqual(
        report.cases.filter((one) => one.status !== 'passed'),
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
