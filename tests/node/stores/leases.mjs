// A store with leases, in memory, written by a user after the page "Leases". Nothing in it awaits, so
// every method is one step.
import { buildHistory } from 'anarchon';

const key = ({ slot, manual = false }) => `${slot}${manual ? ' manual' : ''}`;

export class LeaseStore {
  name = 'leases';
  dedupeWindowMs = Number.POSITIVE_INFINITY;
  jobs = new Map();
  runs = new Leases(this);

  /** @param now - the store's clock (ms since the Unix epoch) */
  constructor(now = Date.now) {
    this.now = now;
  }

  async init() {}
  async close() {}
  job(name) {
    const fresh = { since: 0, floor: -Infinity, fence: 0, runs: new Map(), results: new Map() };
    if (!this.jobs.has(name)) this.jobs.set(name, { ...fresh, keepMs: 0, keepSlots: 0, window: 0 });
    return this.jobs.get(name);
  }

  async prepareJob(name, historySize, limits = {}) {
    const job = this.job(name);
    job.historySize = historySize;
    job.keepMs = Math.max(job.keepMs, limits.keepMs ?? 0);
    job.keepSlots = Math.max(job.keepSlots, limits.keepSlots ?? 0);
    job.window = Math.max(job.window, limits.keepWindowMs ?? 0);
    if (![job.schedule, job.before].includes(limits.schedule)) job.since = this.now();
    if (job.schedule !== limits.schedule) {
      job.before = job.schedule;
      job.schedule = limits.schedule;
    }
    this.trim(job, this.now());
  }

  /** A claim without a lease. A scheduler asks `runs` instead; others may share the store. */
  async claim(input) {
    const [job, now] = [this.job(input.job), this.now()];
    const found = job.runs.get(key(input));
    if (found !== undefined) return found.token === input.token;
    if (input.slot <= job.floor || input.slot > now + (input.maxEarlyMs ?? Infinity)) return false;
    this.startPlain(job, input, now, false);
    job.historySize = input.historySize;
    this.trim(job, now);
    return true;
  }

  async recordManualRun(input) {
    const [job, now] = [this.job(input.job), this.now()];
    let slot = input.slot;
    while (job.runs.has(key({ slot, manual: true }))) {
      if (job.runs.get(key({ slot, manual: true })).token === input.token) return slot;
      slot += 1;
    }
    if (input.leaseMs === undefined) {
      this.startPlain(job, { ...input, slot }, now, true);
      return slot;
    }
    job.fence += 1;
    this.start(job, { ...input, slot, maxTakeovers: 0 }, now, true);
    return slot;
  }

  start(job, { slot, token, instanceId, leaseMs, maxTakeovers }, now, manual = false) {
    const held = { token, by: instanceId, at: now, leaseMs, leaseUntil: now + leaseMs };
    const run = { ...held, slot, manual, attempt: 1, crashes: 0, maxTakeovers, released: false };
    job.runs.set(key(run), { ...run, fence: job.fence });
  }

  /** A run without a lease: it is over for leases, and its result is still to come. */
  startPlain(job, input, now, manual) {
    this.start(job, { ...input, leaseMs: 0, maxTakeovers: 0 }, now, manual);
    const plain = { status: 'unfinished', endedAt: now, attempt: undefined, fence: undefined };
    Object.assign(job.runs.get(key({ slot: input.slot, manual })), plain);
  }

  async saveResult(name, result) {
    const job = this.job(name);
    const run = job.runs.get(key(result));
    job.results.set(key(result), result);
    if (run?.status === 'unfinished') run.status = result.status;
    this.trim(job, this.now());
  }

  /** Runs that nobody may take over are lost when their leases are over. */
  settle(job, now) {
    for (const run of job.runs.values()) {
      if (run.status !== undefined) continue;
      run.leaseUntil = Math.min(run.leaseUntil, now + run.leaseMs);
      if (this.isLost(run, now)) Object.assign(run, { status: 'lost', endedAt: run.leaseUntil });
    }
  }

  isLost(run, now) {
    const crashes = run.crashes + (run.released ? 0 : 1);
    return run.leaseUntil <= now && (run.manual || crashes > run.maxTakeovers);
  }

  /** Drops ended records, but none that somebody may still ask for. */
  trim(job, now) {
    const newest = [...job.runs.values()].sort((a, b) => b.slot - a.slot || b.manual - a.manual);
    const wanted = newest.filter((run) => !run.manual).slice(0, job.keepSlots);
    const ended = newest.filter((run) => run.status !== undefined).slice(job.historySize);
    for (const run of ended) {
      if (Math.max(run.slot, run.endedAt) + job.keepMs > now) continue;
      if (wanted.includes(run) && run.slot + job.window > now) continue;
      job.runs.delete(key(run));
      job.results.delete(key(run));
      if (!run.manual) job.floor = Math.max(job.floor, run.slot);
    }
  }

  async history(name, limit) {
    const [job, now] = [this.job(name), this.now()];
    const runs = [...job.runs.values()];
    const results = [...job.results.values()].filter((one) => job.runs.get(key(one))?.status);
    const records = buildHistory({ job: name, claims: runs, results, limit });
    return records.map((record) => {
      const { attempt, fence, status, endedAt, leaseUntil, ...run } = job.runs.get(key(record));
      const shown = { ...record, attempt, fence };
      if (status !== undefined) return { ...shown, status, endedAt };
      if (this.isLost({ leaseUntil, ...run }, now)) {
        return { ...shown, status: 'lost', endedAt: leaseUntil };
      }
      return { ...shown, status: leaseUntil > now ? 'running' : 'stalled' };
    });
  }
}

export class Leases {
  constructor(store) {
    this.store = store;
  }

  async claim(claim) {
    const [job, now] = [this.store.job(claim.job), this.store.now()];
    this.store.settle(job, now);
    const outcome = { ...this.decide(job, claim, now), nowMs: now };
    const others = [...job.runs.values()].filter((run) => !run.status && key(run) !== key(claim));
    if (others.length > 0) {
      outcome.nextMs = Math.max(0, Math.min(...others.map((run) => run.leaseUntil)) - now);
    }
    this.store.trim(job, now);
    return outcome;
  }

  decide(job, claim, now) {
    const run = job.runs.get(key(claim));
    if (run !== undefined) return this.decideKnown(job, run, claim, now);
    if (claim.slot <= job.floor) return { kind: 'late' };
    if (claim.kind === 'backup') return { kind: 'none' };
    if (claim.kind === 'catch_up' && claim.slot < job.since) return { kind: 'none' };
    if (claim.kind === 'slot' && now > (claim.notAfterMs ?? Infinity)) return { kind: 'late' };
    if (claim.slot > now + (claim.maxEarlyMs ?? Infinity)) return { kind: 'early' };
    const other = [...job.runs.values()]
      .sort((a, b) => a.slot - b.slot || a.manual - b.manual)
      .find((one) => !one.status);
    if (claim.overlap === 'skip' && other !== undefined) {
      if (claim.slot > now) return { kind: 'early' };
      if (claim.kind === 'slot') {
        this.store.start(job, { ...claim, leaseMs: claim.leaseMs }, now);
        const skipped = { status: 'skipped', endedAt: now, attempt: undefined, fence: undefined };
        Object.assign(job.runs.get(key(claim)), skipped);
      }
      const { slot, manual, by } = other;
      return { kind: 'overlap', slot, manual, by, leftMs: Math.max(0, other.leaseUntil - now) };
    }
    job.fence += 1;
    this.store.start(job, claim, now);
    return this.won(job.runs.get(key(claim)));
  }

  won({ attempt, fence, maxTakeovers }) {
    return { kind: 'won', attempt, fence, maxTakeovers };
  }

  decideKnown(job, run, { token, instanceId, leaseMs }, now) {
    const { by, attempt } = run;
    if (run.status !== undefined) return { kind: 'done' };
    if (run.token === token) {
      if (run.released) return { kind: 'running', by, attempt, leftMs: 0 };
      Object.assign(run, { leaseMs, leaseUntil: Math.max(run.leaseUntil, now + leaseMs) });
      return this.won(run);
    }
    if (run.leaseUntil > now) {
      return { kind: 'running', by, attempt, leftMs: run.leaseUntil - now };
    }
    job.fence += 1;
    run.crashes += run.released ? 0 : 1;
    Object.assign(run, { token, by: instanceId, at: now, released: false, attempt: attempt + 1 });
    Object.assign(run, { fence: job.fence, leaseMs, leaseUntil: now + leaseMs });
    return this.won(run);
  }

  /** The unfinished run that the caller holds. */
  held(job, slot, token) {
    const runs = [...this.store.job(job).runs.values()];
    return runs.find((run) => run.slot === slot && run.token === token && !run.status);
  }

  async heartbeat(job, slot, token, leaseMs) {
    const run = this.held(job, slot, token);
    if (run === undefined || run.released) return false;
    Object.assign(run, {
      leaseMs,
      leaseUntil: Math.max(run.leaseUntil, this.store.now() + leaseMs),
    });
    return true;
  }

  async finish(name, slot, token, status) {
    const job = this.store.job(name);
    const run = [...job.runs.values()].find((one) => one.slot === slot && one.token === token);
    if (run === undefined) return false;
    if (run.status !== undefined) return run.status === status;
    Object.assign(run, { status, endedAt: this.store.now() });
    this.store.trim(job, this.store.now());
    return true;
  }

  async release(job, slot, token) {
    const run = this.held(job, slot, token);
    if (run === undefined) return false;
    const leaseUntil = run.released ? run.leaseUntil : this.store.now();
    Object.assign(run, { released: true, leaseUntil });
    return true;
  }

  async active(name) {
    const now = this.store.now();
    const runs = [...this.store.job(name).runs.values()];
    return runs
      .filter((run) => !run.status && !this.store.isLost(run, now))
      .map(({ slot, manual, by, attempt, leaseUntil }) => {
        const leftMs = Math.max(0, leaseUntil - now);
        return { slot, manual, by, attempt, leftMs, alive: leftMs > 0 };
      })
      .sort((a, b) => a.slot - b.slot || a.manual - b.manual);
  }
}
