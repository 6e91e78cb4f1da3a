import { Scheduler } from 'anarchon';

const [backend, instanceId] = [process.env.STORE, process.env.INSTANCE];
const scheduler = new Scheduler({ backend, instanceId, logger: false });
scheduler.at(
  'block',
  Number(process.env.AT),
  (ctx) => {
    console.log('entered');
    const until = performance.now() + 3_300;
    while (performance.now() < until);
    return ctx.attempt;
  },
  { leaseMs: 1_000, jitterMs: 0 },
);
scheduler.on('finished', () => console.log('finished'));
await scheduler.start({ signals: true });
