// Runs one job with the installed npm package, required as CommonJS.
const assert = require('node:assert/strict');
const { MemoryBackend, Scheduler } = require('anarchon');

async function main() {
  const scheduler = new Scheduler({ backend: new MemoryBackend() });
  scheduler.every('tick', '1h', () => 'done');
  await scheduler.start();
  assert.equal((await scheduler.runNow('tick')).status, 'succeeded');
  await scheduler.stop();
  console.log('node, require: ok');
}

main();
