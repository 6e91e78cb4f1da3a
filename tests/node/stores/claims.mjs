// The smallest store: claims without leases, in memory, written by a user.
import { buildHistory } from 'anarchon';

export class ClaimStore {
  name = 'claims';
  dedupeWindowMs = Number.POSITIVE_INFINITY;
  claims = new Map();
  results = [];

  async init() {}
  async prepareJob() {}
  async close() {}

  key({ job, slot }) {
    return JSON.stringify([job, slot]);
  }

  record({ job, slot, token, instanceId }, manual) {
    return { job, slot, token, by: instanceId, at: Date.now(), manual };
  }

  async claim(input) {
    const found = this.claims.get(this.key(input));
    if (found !== undefined) return found.token === input.token;
    this.claims.set(this.key(input), this.record(input, false));
    return true;
  }

  async recordManualRun(input) {
    this.claims.set(`${this.key(input)} manual`, this.record(input, true));
  }

  async saveResult(job, result) {
    this.results.push({ job, result });
  }

  async history(job, limit) {
    const claims = [...this.claims.values()].filter((claim) => claim.job === job);
    const results = this.results.filter((one) => one.job === job).map(({ result }) => result);
    return buildHistory({ job, claims, results, limit });
  }
}
