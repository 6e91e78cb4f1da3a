// A process that holds a run of its parent's store until it is told to end.
import { Scheduler } from 'anarchon';
import { RemoteStore } from './remote.mjs';

const scheduler = new Scheduler({
  backend: new RemoteStore(),
  instanceId: 'child',
  logger: false,
});
scheduler.at(
  'job',
  Number(process.argv[2]),
  async (ctx) => {
    process.send({ entered: ctx.attempt });
    await ctx.sleep('1h');
  },
  { jitterMs: 0, leaseMs: '1s' },
);
await scheduler.start({ signals: true });
