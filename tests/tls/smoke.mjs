// A store on an encrypted server in Node: what the tests ask of both languages.
//
// usage: node smoke.mjs CONFIG_JSON, as for smoke.py
import {
  MySqlBackend,
  NatsBackend,
  PostgresBackend,
  RabbitMqBackend,
  RedisBackend,
  Scheduler,
} from 'anarchon';
import { checkBackend } from 'anarchon/testing';
import { tally } from '../node/tally.mjs';

const CLASSES = {
  postgres: PostgresBackend,
  mariadb: MySqlBackend,
  mysql: MySqlBackend,
  redis: RedisBackend,
  nats: NatsBackend,
  rabbitmq: RabbitMqBackend,
};
const NAMESPACE = 'node';

/** How the cases of the contract end on stores that the class makes. */
async function byClass({ name, url, ours, check }) {
  const open = () => new CLASSES[name]({ url, namespace: NAMESPACE, ...ours });
  const report = await checkBackend(open, check);
  tally(`${name} with TLS`, report);
  return report.cases.map((one) => [one.name, one.status, one.message ?? '']);
}

/** The history of a job that ran once, on a store that a URL names. */
async function byUrl({ url, ours }) {
  const query = new URLSearchParams({ ...ours, namespace: NAMESPACE });
  const backend = `${url}${url.includes('?') ? '&' : '?'}${query}`;
  const scheduler = new Scheduler({ backend, instanceId: 'a', logger: false });
  scheduler.every('report', '1h', () => ({ rows: 3 }));
  await scheduler.start();
  try {
    await scheduler.runNow('report');
    const shown = await scheduler.history('report');
    return shown.map((run) => [run.by, run.status, JSON.parse(run.output)]);
  } finally {
    await scheduler.stop();
  }
}

/** What who trusts another authority is told. */
async function refused({ name, url, theirs }) {
  const store = new CLASSES[name]({ url, ...theirs });
  try {
    await store.init();
  } catch ({ code, message }) {
    return { code, message };
  } finally {
    await store.close();
  }
  return { code: null, message: 'let in' };
}

const config = JSON.parse(process.argv[2]);
const told = {
  byClass: await byClass(config),
  byUrl: await byUrl(config),
  refused: await refused(config),
};
console.log(JSON.stringify(told));
