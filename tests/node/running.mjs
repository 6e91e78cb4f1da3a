// Schedulers that run for a test.
import { Scheduler } from 'anarchon';

/** A running scheduler with one job, stopped when the test is over. */
export async function started(t, backend, { when = '1h', handler = () => {}, ...options } = {}) {
  const scheduler = new Scheduler({ backend, logger: false, ...options });
  scheduler.on('error', () => {});
  scheduler.every('job', when, handler, { jitterMs: 0 });
  t.after(() => scheduler.stop({ graceMs: 0 }));
  await scheduler.start();
  return scheduler;
}

/** Resolves with the slots when the handler has run for `count` of them, whoever ran it. */
export function collecting(count) {
  const slots = [];
  let enough;
  const done = new Promise((resolve) => {
    enough = resolve;
  });
  const handler = (ctx) => {
    slots.push(ctx.slot);
    if (slots.length >= count) enough(slots);
  };
  return { handler, done, slots };
}
