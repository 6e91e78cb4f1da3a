// A replica of the lateness part of `make bench`, in Node: the same as late.py.
//
// usage: node late.mjs CONFIG_JSON
import { setTimeout as sleep } from 'node:timers/promises';
import { Scheduler } from 'anarchon';

const config = JSON.parse(process.argv[2]);
const lines = [];
const now = () => performance.timeOrigin + performance.now();

const replicas = config.stores.map(({ name, url, job, offsetMs }) => {
  const scheduler = new Scheduler({ backend: url, instanceId: config.id });
  const note = (ctx) => {
    const at = now();
    lines.push(JSON.stringify({ language: 'node', store: name, slot: ctx.slot, at }));
  };
  scheduler.every(job, '1s', note, { jitterMs: 0, offsetMs });
  return scheduler;
});
for (const replica of replicas) await replica.start();
await sleep(Math.max(0, config.until - now()));
for (const replica of replicas) await replica.stop();
console.log(lines.join('\n'));
