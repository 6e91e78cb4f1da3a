// The blocks that the customer's page shows: they compile under `strict`, and do what it says of them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { folder } from './program.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const PACKAGE = dirname(createRequire(import.meta.url).resolve('anarchon/package.json'));

/** The block under a heading of `published.md`. */
function block(name) {
  const text = readFileSync(join(HERE, 'published.md'), 'utf8');
  const found = text.match(new RegExp(`^## ${name}\\n[^]*?^\`\`\`ts\\n([^]*?)^\`\`\`$`, 'm'));
  assert.ok(found, `published.md has no block ${name}`);
  return found[1];
}

/** What each block leaves out, before it; and what is asked of it, after it. */
const FILES = {
  'contract.mts': `
import type {
  Backend as Ours, ClaimInput, JobLimits, RunRecord, RunStore, StoredResult,
} from 'anarchon';
${block('contract')}
declare const published: Backend;
declare const ours: Ours;
export const asOurs: Ours = published;
export const asPublished: Backend = ours;
// Member by member too, so that no member is compared through a wider one.
export const members: {
  [K in keyof Required<Backend>]-?: [Required<Ours>[K], Required<Backend>[K]];
} = null as unknown as {
  [K in keyof Required<Ours>]-?: [Required<Backend>[K], Required<Ours>[K]];
};
`,

  'memory.mts': block('memory'),

  'three.mts': `
import { Scheduler } from 'anarchon';
import { MemoryBackend } from './memory.mjs';
const lines: [number, string][] = [];
const console = { log: (slot: number, instanceId: string) => void lines.push([slot, instanceId]) };
${block('three')}
const until = async (count: number) => {
  while (lines.length < count) {
    await new Promise((resolve) => instances[0]!.once('finished', resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
};
await Promise.race([until(3), ...instances.map((s) => new Promise((_, no) => s.on('error', no)))]);
await Promise.all(instances.map((s) => s.stop()));
const records = await backend.history('tick', 100);
process.stdout.write(JSON.stringify({ lines, records }));
`,

  'driver.mts': `
import Database from 'better-sqlite3';
export function open() {
  const database = new Database(process.argv[2]!);
  // A test need not outlive a loss of power.
  database.pragma('synchronous = OFF');
  return database;
}
type Rows = Promise<object[]>;
/** A driver as programs have them: asynchronous, and its transactions take turns. */
export function connect() {
  const database = open();
  let last: Promise<unknown> = Promise.resolve();
  const turn = <T>(work: () => Promise<T>) => {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  };
  const send = async (sql: string, params: unknown[]): Rows => {
    const statement = database.prepare(sql);
    if (statement.reader) return statement.all(...params) as object[];
    statement.run(...params);
    return [];
  };
  return {
    query: (sql: string, params: unknown[]): Rows => turn(() => send(sql, params)),
    transaction: (fn: (tx: { query: typeof send }) => Promise<void>): Promise<void> =>
      turn(async () => {
        database.exec('BEGIN IMMEDIATE');
        try {
          await fn({ query: send });
          database.exec('COMMIT');
        } catch (error) {
          database.exec('ROLLBACK');
          throw error;
        }
      }),
  };
}
`,

  'use.mts': `
import { type Backend, Scheduler } from 'anarchon';
import { checkBackend } from 'anarchon/testing';
/** Runs a job on two schedulers, and holds the backend against the contract. */
export async function use(backend: Backend, open: () => Backend) {
  const all = ['A', 'B'].map((instanceId) => new Scheduler({ backend, instanceId, logger: false }));
  for (const one of all) one.every('job', '1h', (ctx) => ctx.instanceId);
  await Promise.all(all.map((one) => one.start()));
  const run = await all[1]!.runNow('job');
  const seen = await all[0]!.history('job');
  await Promise.all(all.map((one) => one.stop()));
  const { cases } = await checkBackend(open, { rounds: 3, histories: 2, steps: 15, clients: 2 });
  const count = (wanted: string) => cases.filter(({ status }) => status === wanted).length;
  process.stdout.write(JSON.stringify({
    name: backend.name, output: run.output, seen: seen.map(({ slot, by }) => [slot, by]), slot: run.slot,
    passed: count('passed'), failed: count('failed'),
  }));
}
`,

  'adapter.mts': `
import { connect } from './driver.mjs';
import { use } from './use.mjs';
const myDriver = connect();
${block('adapter')}
await use(backend, () => backend);
`,

  'embedded.mts': `
import { open } from './driver.mjs';
import { use } from './use.mjs';
const openDatabase = open;
${block('embedded')}
await use(new EmbeddedSqlBackend(), () => new EmbeddedSqlBackend());
`,
};

let place;
let complaints;

before((t) => {
  place = folder(t);
  for (const [name, code] of Object.entries(FILES)) writeFileSync(join(place, name), code);
  const settings = {
    compilerOptions: {
      strict: true,
      target: 'es2022',
      module: 'nodenext',
      types: ['node'],
      typeRoots: [join(PACKAGE, 'node_modules', '@types')],
    },
    include: ['*.mts'],
  };
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify(settings));
  symlinkSync(join(PACKAGE, 'node_modules', '@types'), join(place, 'types'));
  const compiler = join(PACKAGE, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['-p', place, '--pretty', 'false'];
  complaints = spawnSync(process.execPath, [compiler, ...options], {
    cwd: place,
    encoding: 'utf8',
  }).stdout;
});

function play(name, ...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(place, name), ...args], {
    cwd: place,
    encoding: 'utf8',
  });
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
  return JSON.parse(stdout);
}

for (const name of Object.keys(FILES).filter((name) => !['driver.mts', 'use.mts'].includes(name))) {
  test(`the block in ${name} compiles under strict`, () => {
    const mine = complaints
      .split('\n')
      .filter((line) => !/^\w+\.mts\(/.test(line) || line.startsWith(name));
    assert.equal(mine.join('\n').trim(), '');
  });
}

test('three schedulers on the MemoryBackend of the page run each slot once', () => {
  const { lines, records } = play('three.mjs');
  assert.ok(lines.length >= 3);
  const slots = lines.map(([slot]) => slot);
  assert.equal(new Set(slots).size, slots.length, `a slot ran twice: ${JSON.stringify(lines)}`);
  assert.deepEqual(
    records.map(({ slot, by, status }) => [slot, by, status]),
    lines.map(([slot, by]) => [slot, by, 'succeeded']).sort(([a], [b]) => b - a),
  );
});

test('a client with all() and transaction() is a whole SQL backend', () => {
  const answer = play('adapter.mjs', join(place, 'adapter.db'));
  assert.deepEqual([answer.name, answer.output, answer.failed], ['sqlite', '"B"', 0]);
  assert.deepEqual(answer.seen, [[answer.slot, 'B']]);
  assert.ok(answer.passed > 40, `only ${answer.passed} cases passed`);
});

test('the EmbeddedSqlBackend of the page is a whole SQL backend', () => {
  const answer = play('embedded.mjs', join(place, 'embedded.db'));
  assert.deepEqual([answer.name, answer.output, answer.failed], ['embedded-sql', '"B"', 0]);
  assert.deepEqual(answer.seen, [[answer.slot, 'B']]);
  assert.ok(answer.passed > 40, `only ${answer.passed} cases passed`);
});
