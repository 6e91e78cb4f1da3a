// Runs one job with the installed npm package, imported as an ES module.
import assert from 'node:assert/strict';
import { MemoryBackend, Scheduler } from 'anarchon';

const scheduler = new Scheduler({ backend: new MemoryBackend() });
scheduler.every('tick', '1h', () => 'done');
await scheduler.start();
const record = await scheduler.runNow('tick');
assert.equal(record.status, 'succeeded');
assert.deepEqual(
  (await scheduler.history('tick')).map((run) => run.slot),
  [record.slot],
);
await scheduler.stop();
console.log('node, import: ok');
