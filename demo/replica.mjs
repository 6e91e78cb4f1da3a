// One Node replica of the demo: the same jobs as replica.py, on the same store.
//
// usage: node replica.mjs INSTANCE_ID STORE_URL REPORT_AT_MS LOG_FILE
import { openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Scheduler } from 'anarchon';

const [instanceId, backend, reportAt, logFile] = process.argv.slice(2);
const log = openSync(logFile, 'a');

// Writes one line to this replica's own log: what its handlers really did.
function note(what, ctx) {
  const run = ctx && { job: ctx.job, slot: ctx.slot, attempt: ctx.attempt };
  writeSync(log, `${JSON.stringify({ what, by: instanceId, at: Date.now(), ...run })}\n`);
}

const scheduler = new Scheduler({ backend, instanceId });

// A short job, due every second.
scheduler.every(
  'beat',
  '1s',
  (ctx) => {
    note('start', ctx);
    note('end', ctx);
  },
  { leaseMs: 2_000 },
);

// A long job, due once: its first holder is going to be killed.
scheduler.at(
  'report',
  Number(reportAt),
  async (ctx) => {
    note('start', ctx);
    await sleep(4_000, undefined, { signal: ctx.signal });
    note('end', ctx);
    return `written by ${instanceId}`;
  },
  { leaseMs: 2_000 },
);

// Neither should happen here: the summary looks for it.
scheduler.on('missed', () => note('complaint'));
scheduler.on('error', () => note('complaint'));

note('ready');
await scheduler.start({ signals: true });
