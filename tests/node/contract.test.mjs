// The suite for people who write a backend: what keeps the contract passes, what does not fails, and
// the message says what is wrong.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AnarchonError, buildHistory, MemoryBackend } from 'anarchon';
import { backendCases, CheckFailedError, checkBackend } from 'anarchon/testing';
import { ClaimStore } from './stores/claims.mjs';
import { LeaseStore, Leases } from './stores/leases.mjs';
import { tally } from './tally.mjs';

const counts = ({ cases }) => {
  const count = (wanted) => cases.filter(({ status }) => status === wanted).length;
  return [count('passed'), count('failed'), count('skipped')];
};

// At least so many pass; what is skipped is skipped for this reason alone.
for (const [what, Store, atLeast, reason] of [
  ['a store of ours', MemoryBackend, 54, /^$/],
  ['a store with claims alone', ClaimStore, 19, /no leases|store grows|cannot tell/],
  ['a store with the five methods of leases', LeaseStore, 45, /^`runs\.\w+` is not there$/],
]) {
  test(`${what} passes, and what does not apply is counted as skipped`, async () => {
    const store = new Store();
    const report = await checkBackend(() => store, { rounds: 5, histories: 5, seed: 7 });
    const [passed, failed, skipped] = counts(report);
    assert.equal(failed, 0, report.text);
    assert.ok(passed >= atLeast, report.text);
    assert.equal(passed + skipped, backendCases().length + 1, 'the last case closes the store');
    for (const { status, message } of report.cases) {
      if (status === 'skipped') assert.match(message, reason);
    }
    assert.equal(report.backend, store.name);
    if (Store !== MemoryBackend) tally(`class: ${store.name}`, report);
  });
}

for (const name of backendCases()) {
  test(`as a test of its own: ${name}`, async () => {
    const store = new LeaseStore();
    const { cases } = await checkBackend(() => store, { only: [name], rounds: 2, histories: 1 });
    assert.ok(cases.some((one) => one.name === name));
  });
}

/** A store of claims with one thing wrong. */
const claims = (flaw) => () => Object.assign(new ClaimStore(), flaw);

/** A store of leases with one thing wrong. */
const leases = (flaw) => () => {
  const store = new LeaseStore();
  store.runs = Object.assign(new Leases(store), flaw);
  return store;
};

const proto = ClaimStore.prototype;
const runs = Leases.prototype;

// What is wrong; the store; the case that finds it; what its message says.
const BROKEN = [
  [
    'checks first and writes then',
    claims({
      async claim(input) {
        const found = this.claims.get(this.key(input));
        await sleep(1);
        if (found) return found.token === input.token;
        this.claims.set(this.key(input), this.record(input, false));
        return true;
      },
    }),
    'the race: of several clients',
    /clients claimed the same slot at once .*step of the store/s,
  ],
  [
    'ignores the token',
    claims({
      async claim(input) {
        await proto.claim.call(this, input);
        return true;
      },
    }),
    'a different token loses',
    /granted again to a different token; compare the stored token/,
  ],
  [
    'refuses the repeat',
    claims({
      async claim(input) {
        return !this.claims.has(this.key(input)) && proto.claim.call(this, input);
      },
    }),
    "the winner's claim again",
    /the winning claim sent again with the same token was refused/,
  ],
  [
    'throws on the repeat',
    claims({
      async claim(input) {
        if (this.claims.has(this.key(input))) throw new RangeError('duplicate key');
        return proto.claim.call(this, input);
      },
    }),
    "the winner's claim again",
    /a call was answered with an error: .*duplicate key/,
  ],
  [
    'forgets claims when it trims',
    claims({
      async saveResult(job, result, historySize) {
        await proto.saveResult.call(this, job, result);
        for (const key of [...this.claims.keys()].slice(0, -historySize)) this.claims.delete(key);
      },
    }),
    'a slot never starts again',
    /a new claim for it was granted: trimming must not forget/,
  ],
  [
    'has a history without results',
    claims({ async saveResult() {} }),
    'a claim and its saved result',
    /the saved result was `succeeded`, the record says `unfinished`/,
  ],
  [
    'shows the oldest run first',
    claims({
      async history(job, limit) {
        return (await proto.history.call(this, job, 1_000)).reverse().slice(0, limit);
      },
    }),
    'newest first',
    /five slots came back in the order \[.*\]; the newest slot comes first/,
  ],
  [
    'ignores the limit',
    claims({
      async history(job) {
        return proto.history.call(this, job, 1_000);
      },
    }),
    'newest first',
    /history with limit 3 showed/,
  ],
  [
    'shares state between jobs whose names begin alike',
    claims({ key: ({ job, slot }) => `${job.slice(0, 24)}|${slot}` }),
    'different job names never share',
    /its name is taken for another's/,
  ],
  [
    'rounds slots to seconds',
    claims({ key: ({ job, slot }) => `${job}|${Math.floor(slot / 1_000)}` }),
    'slots are whole milliseconds',
    /was refused: it is taken for one a few milliseconds apart/,
  ],
  [
    'loses the manual flag',
    claims({
      async recordManualRun(input) {
        this.claims.set(`${this.key(input)} by hand`, this.record(input, false));
      },
      async saveResult(job, result) {
        await proto.saveResult.call(this, job, { ...result, manual: false });
      },
    }),
    'manual runs and scheduled runs',
    /came back with `manual` \[false\]/,
  ],
  [
    'lets a manual run take the slot',
    claims({
      async recordManualRun(input) {
        this.claims.set(this.key(input), this.record(input, true));
      },
    }),
    'manual runs and scheduled runs',
    /a manual run took the place of the scheduled run/,
  ],
  [
    'drops what the handler threw',
    claims({
      async history(job, limit) {
        const records = await proto.history.call(this, job, limit);
        return records.map(({ error: _error, ...record }) => record);
      },
    }),
    'what the handler threw',
    /the error .* came back as/,
  ],
  [
    'answers 1 for true',
    claims({
      async claim(input) {
        return Number(await proto.claim.call(this, input));
      },
    }),
    'the race: of several clients',
    /ClaimStore\.claim\(\) answered 1; it must answer true or false/,
  ],
  [
    'answers rows for records',
    claims({
      async history() {
        return [{ slot: 1 }];
      },
    }),
    'a claim and its saved result',
    /ClaimStore\.history\(\) answered \[\{"slot":1\}\]; it must answer a list of run records/,
  ],
  [
    'never answers',
    claims({ saveResult: () => new Promise(() => {}) }),
    'a claim and its saved result',
    /did not end within 300 ms: a call never answers/,
  ],
  [
    'cannot be set up twice',
    claims({
      ready: false,
      async prepareJob() {
        if (this.ready) throw new Error('table exists');
        this.ready = true;
      },
    }),
    'setting up can be repeated',
    /a call was answered with an error: .*table exists/,
  ],
  [
    'takes over a live lease',
    leases({
      async claim(claim) {
        for (const run of this.store.job(claim.job).runs.values()) {
          if (!run.status && run.token !== claim.token) run.leaseUntil = 0;
        }
        return runs.claim.call(this, claim);
      },
    }),
    'rule 3',
    /claims slot 0 with token 2.* the rules say "running"/s,
  ],
  [
    'renews without looking at the token',
    leases({
      held(job, slot) {
        const all = [...this.store.job(job).runs.values()];
        return all.find((run) => run.slot === slot && !run.status);
      },
    }),
    'heartbeat: only with the token',
    /heartbeat for slot 0 with token 2.*the rules say false/s,
  ],
  [
    'moves a lease back',
    leases({
      async heartbeat(job, slot, token, leaseMs) {
        const run = this.held(job, slot, token);
        if (run === undefined || run.released) return false;
        Object.assign(run, { leaseMs, leaseUntil: Date.now() + leaseMs });
        return true;
      },
    }),
    'heartbeat: only with the token',
    /claims slot 0 with token 2.* the rules say "running"/s,
  ],
  [
    'never releases',
    leases({ release: async () => true }),
    'one given back is taken over at once',
    /a backup that asked then was answered `running`: release must end the lease now/,
  ],
  [
    'counts no attempts',
    leases({ won: ({ fence }) => ({ kind: 'won', attempt: 1, fence }) }),
    'taken over by exactly one',
    /the first takeover of a run was answered as attempt .*1.*, 2 is right/,
  ],
  [
    'ends a run for anybody',
    leases({
      async finish(name, slot, _token, status) {
        const run = [...this.store.job(name).runs.values()].find((one) => one.slot === slot);
        return runs.finish.call(this, name, slot, run?.token, status);
      },
    }),
    'finish: only with the token',
    /finishes slot 0 with token 2.*the rules say false/s,
  ],
  [
    'forgets fences',
    leases({
      won(run) {
        return { ...runs.won(run), fence: 1 };
      },
    }),
    'every grant has a fence of its own',
    /each grant of a job must have a greater one/,
  ],
  [
    'ignores runs in the way',
    leases({
      async claim(claim) {
        return runs.claim.call(this, { ...claim, overlap: 'allow' });
      },
    }),
    'of two slots that skip each other',
    /only one run of the job may be unfinished/,
  ],
  [
    'answers a claim with true',
    leases({ claim: async () => true }),
    'leases, the race: exactly one wins',
    /LeaseStore\.runs\.claim\(\) answered true; it must answer an outcome/,
  ],
  [
    'wins a lease without saying so',
    leases({
      async claim(claim) {
        const outcome = await runs.claim.call(this, claim);
        return { ...outcome, kind: outcome.kind === 'won' ? 'granted' : outcome.kind };
      },
    }),
    'rule 2: the same claim again',
    /answered `granted`.* the rules say "won"/,
  ],
];

for (const [what, open, part, message] of BROKEN) {
  test(`a store that ${what} is found out`, async () => {
    const store = open();
    const name = backendCases().find((one) => one.includes(part));
    assert.ok(name, `there is no case about ${JSON.stringify(part)}`);
    const options = {
      only: [name],
      rounds: 5,
      caseTimeoutMs: what === 'never answers' ? 300 : 20_000,
    };
    const error = await checkBackend(() => store, options).catch((thrown) => thrown);
    assert.ok(error instanceof CheckFailedError, `it passed: ${error.text ?? error.stack}`);
    const failed = error.report.cases.filter(({ status }) => status === 'failed');
    assert.deepEqual(
      failed.map((one) => one.name),
      [name],
    );
    assert.match(failed[0].message, message);
    assert.ok(error.message.includes(failed[0].message), 'the error says it as well');
  });
}

test('at least twelve different flaws are tried', () => {
  assert.ok(new Set(BROKEN.map(([what]) => what)).size >= 12);
});

test('a random history that goes wrong is told with its seed and its shortest form', async () => {
  const store = leases({ release: async () => true })();
  const only = ['random histories'];
  const error = await checkBackend(() => store, { only, histories: 30, seed: 3 }).catch((e) => e);
  const failed = error.report.cases.find(({ status }) => status === 'failed');
  assert.match(
    failed.message,
    /a random history \(seed \d+\) went wrong; the shortest form of it, \d calls/,
  );
});

test('an open that fails is the failure', async () => {
  const lost = new Error('no such host');
  const error = await checkBackend(() => Promise.reject(lost)).catch((thrown) => thrown);
  assert.ok(error instanceof CheckFailedError);
  assert.match(error.message, /a client could not be opened: .*no such host/);
});

for (const [given, message] of [
  [undefined, /was given undefined; allowed is a function/],
  [new MemoryBackend(), /was given an object; allowed is a function/],
]) {
  test(`checkBackend refuses ${typeof given}`, async () => {
    await assert.rejects(checkBackend(given), (error) => {
      assert.ok(error instanceof AnarchonError);
      assert.equal(error.code, 'INVALID_OPTION');
      assert.match(error.message, message);
      return true;
    });
  });
}

test('checkBackend names the option that was meant', async () => {
  await assert.rejects(
    checkBackend(() => new MemoryBackend(), { round: 3 }),
    {
      code: 'INVALID_OPTION',
      message: /round\b.*rounds/,
    },
  );
});

test('buildHistory: newest first, one record per run, manual and scheduled apart', () => {
  const claim = (slot, manual = false) => ({ slot, by: 'a', at: slot + 5, manual });
  const result = (slot, more = {}) => {
    const times = { startedAt: slot + 10, endedAt: slot + 40 };
    return { slot, manual: false, by: 'b', status: 'succeeded', ...times, ...more };
  };
  const records = buildHistory({
    job: 'job',
    claims: [claim(1_000), claim(3_000), claim(2_000), claim(2_000, true)],
    results: [result(2_000), result(2_000, { manual: true, status: 'failed' }), result(500)],
    limit: 20,
  });
  assert.deepEqual(
    records.map(({ slot, manual, status, by }) => [slot, manual, status, by]),
    [
      [3_000, false, 'unfinished', 'a'],
      [2_000, true, 'failed', 'a'],
      [2_000, false, 'succeeded', 'a'],
      [1_000, false, 'unfinished', 'a'],
      [500, false, 'succeeded', 'b'],
    ],
  );
  assert.equal(records[2].durationMs, 30);
  assert.deepEqual(buildHistory({ job: 'job', claims: [claim(1)], results: [], limit: 0 }), []);
});
