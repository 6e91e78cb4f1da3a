// A Node replica for the fleet tests: the same configuration and the same log lines as replica.py.
//
// usage: node replica.mjs CONFIG_JSON
import { openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Scheduler } from 'anarchon';

const EVENTS = [
  'missed',
  'takeover',
  'leaseLost',
  'overlap',
  'skew',
  'overdue',
  'storeDown',
  'error',
];

const config = JSON.parse(process.argv[2]);
const log = openSync(config.log, 'a');
let running = 0;

function note(what, more) {
  writeSync(log, `${JSON.stringify({ what, by: config.id, at: Date.now(), ...more })}\n`);
}

const runOf = ({ job, slot, attempt, fence, trigger }) => ({ job, slot, attempt, fence, trigger });
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const WORK = {
  quick: async () => {},
  // Work that can be cancelled.
  sleep: (ctx, ms) => sleep(ms, undefined, { signal: ctx.signal }),
  // Work that goes on whoever cancels it.
  ignore: async (ctx, ms) => {
    ctx.signal.addEventListener('abort', () => note('cancelled', runOf(ctx)));
    await sleep(ms);
  },
  // Work that does not let the event loop go on.
  block: async (_ctx, ms) => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  },
};

function handler({ work, ms = 0 }) {
  return async (ctx) => {
    running += 1;
    note('start', runOf(ctx));
    try {
      await WORK[work](ctx, ms);
    } catch (error) {
      if (error?.name === 'AbortError') note('cancelled', runOf(ctx));
      throw error;
    } finally {
      running -= 1;
    }
    note('end', runOf(ctx));
  };
}

const stopping = new Promise((resolve) => process.once('SIGTERM', resolve));
// What happens is in the log of the test: a replica that prints something has crashed.
const scheduler = new Scheduler({ backend: config.url, instanceId: config.id, logger: false });
for (const name of EVENTS) {
  scheduler.on(name, (payload) => {
    const event = payload instanceof Error ? String(payload) : payload;
    note(snake(name), { event });
  });
}
for (const job of config.jobs) {
  scheduler[job.kind](job.name, job.when, handler(job), job.options);
}
await scheduler.start();
await scheduler.ready();
note('ready');
await stopping;
const report = await scheduler.stop({ graceMs: config.graceMs ?? 20_000 });
note('stopped', { still_running: report.stillRunning.length, released: report.released.length });
while (running > 0) await sleep(20);
// A handler that outlived stop() has its run finished by the scheduler, which lives till then.
await scheduler.stop();
