// The package as it is imported, required and type-checked.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as imported from 'anarchon';
import * as importedTesting from 'anarchon/testing';
import { folder } from './program.mjs';

const require = createRequire(import.meta.url);
const PACKAGE = fileURLToPath(new URL('../../bindings-node/', import.meta.url));

test('import and require give the very same objects', () => {
  for (const [es, cjs] of [
    [imported, require('anarchon')],
    [importedTesting, require('anarchon/testing')],
  ]) {
    const names = Object.keys(cjs).sort();
    assert.ok(names.length > 2);
    const plain = (name) => !['default', 'module.exports', '__esModule'].includes(name);
    assert.deepEqual(Object.keys(es).filter(plain).sort(), names);
    for (const name of names) assert.equal(es[name], cjs[name], name);
  }
});

test('a second copy of the package in one thread shares the bridge', async (t) => {
  for (const path of Object.keys(require.cache)) {
    if (path.startsWith(join(PACKAGE, 'dist'))) delete require.cache[path];
  }
  const copy = require('anarchon');
  assert.notEqual(copy.Scheduler, imported.Scheduler);
  // A backend object of one copy works with the scheduler of the other.
  const backend = new imported.MemoryBackend();
  const scheduler = new copy.Scheduler({ backend, logger: false });
  t.after(() => scheduler.stop());
  scheduler.every('job', '1h', () => 'both');
  await scheduler.start();
  assert.equal((await scheduler.runNow('job')).output, '"both"');
  assert.equal((await backend.history('job', 5)).length, 1);
});

test('the lock file names no host to download from', () => {
  const lock = readFileSync(join(PACKAGE, 'package-lock.json'), 'utf8');
  assert.doesNotMatch(lock, /https?:\/\/(?!.*(?:opencollective|github)\.)|"resolved"/);
});

const USE = `
import { AnarchonError, type Backend, type Duration, type JobContext, MemoryBackend, type RunRecord, Scheduler, type SchedulerEvents, type SchedulerOptions, SqlBackend } from 'anarchon';
import { ManualClock } from 'anarchon/testing';

const options: SchedulerOptions = { backend: new MemoryBackend(), defaults: { timeoutMs: '5m' } };
const scheduler = new Scheduler(options);
const interval: Duration = '10s';
scheduler.every('tick', interval, (ctx: JobContext) => ctx.signal.aborted);
scheduler.on('finished', (record, error) => {
  const status: string = record.status;
  void [status, error];
});
scheduler.once('missed', ({ count, reason }) => count.toFixed() + reason);
const records: Promise<RunRecord[]> = scheduler.history('tick');
const entries = scheduler.history('tick', { missed: true });
entries.then(([entry]) => entry !== undefined && ('missed' in entry ? entry.missed.count : entry.slot));
const ours: Backend = scheduler.backend;
const names: (keyof SchedulerEvents)[] = ['won', 'error'];
void [records, ours, names, new ManualClock().advance('1h'), SqlBackend];
if (new Error() instanceof AnarchonError) throw 0;

// @ts-expect-error a handler is needed
scheduler.every('tick', '10s');
// @ts-expect-error there is no such option
scheduler.every('tick', '10s', () => {}, { timeout: 5 });
// @ts-expect-error there is no such event
scheduler.on('finshed', () => {});
// @ts-expect-error the listener gets a record
scheduler.on('finished', (record: number) => record);
// @ts-expect-error a backend has more members
const half: Backend = { name: 'half', dedupeWindowMs: 5 };
// @ts-expect-error overlap is one of two words
scheduler.cron('report', '@daily', () => {}, { overlap: 'queue' });
`;

for (const [what, compilerOptions] of [
  ['without the types of Node.js', { types: [], module: 'nodenext' }],
  ['for a bundler', { types: [], module: 'esnext', moduleResolution: 'bundler' }],
  [
    'with the types of Node.js',
    {
      types: ['node'],
      typeRoots: [join(PACKAGE, 'node_modules/@types')],
      lib: ['ES2022'],
      module: 'node16',
    },
  ],
]) {
  test(`the types hold under strict, ${what}`, async (t) => {
    const path = folder(t);
    const strict = {
      noEmit: true,
      strict: true,
      exactOptionalPropertyTypes: true,
      target: 'ES2022',
    };
    const files = ['use.mts'];
    writeFileSync(join(path, 'use.mts'), USE);
    if (compilerOptions.module !== 'esnext') {
      files.push('use.cts');
      writeFileSync(join(path, 'use.cts'), USE);
    }
    writeFileSync(
      join(path, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...strict, ...compilerOptions }, files }),
    );
    const tsc = join(PACKAGE, 'node_modules/typescript/bin/tsc');
    const { stdout } = await promisify(execFile)(process.execPath, [tsc, '-p', path]).catch(
      (error) => error,
    );
    assert.equal(stdout, '');
  });
}
