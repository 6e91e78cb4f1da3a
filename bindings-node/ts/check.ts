/** The contract as a suite of tests, for whoever writes a backend. */

import { engineOf } from './builtin';
import type { Backend } from './contract';
import { checkNames, encode, show } from './encode';
import { AnarchonError } from './errors';
import { HostObject, hostBackend } from './host';
import { native } from './native';
import { port } from './port';

/** How thoroughly a backend is checked. */
export interface CheckOptions {
  /** Clients that race with each other, from 2; default 4. */
  clients?: number;
  /** How often each race is run, from 1; default 20. */
  rounds?: number;
  /** How many random histories are compared with the reference, from 0; default 20. */
  histories?: number;
  /** How many calls a random history has, from 1; default 30. */
  steps?: number;
  /** What the random histories are drawn from, from 0; a report names it. Default 1. */
  seed?: number;
  /** How long a case may take (ms), from 1; default 60 000. */
  caseTimeoutMs?: number;
  /** Whether what a backend may leave out is required too; default false. */
  complete?: boolean;
  /** Only the cases whose names contain one of these. */
  only?: readonly string[];
}

const OPTIONS: readonly (keyof CheckOptions)[] = [
  'clients',
  'rounds',
  'histories',
  'steps',
  'seed',
  'caseTimeoutMs',
  'complete',
  'only',
];

/** A case and how it ended. */
export interface CheckedCase {
  /** A sentence that is true of a backend that passes. */
  name: string;
  /** How it ended. */
  status: 'passed' | 'failed' | 'skipped';
  /** What happened, with the shortest trace; or why it was skipped. */
  message?: string;
}

/** All cases and how they ended. */
export interface CheckReport {
  /** The name of the backend. */
  backend: string;
  /** The cases, in order. */
  cases: CheckedCase[];
  /** What failed and what was skipped, and the counts, in words. */
  text: string;
}

/** What {@link checkBackend} rejects with when a case failed. */
export class CheckFailedError extends Error {
  /** All cases and how they ended. */
  readonly report: CheckReport;

  /** @param report - all cases and how they ended */
  constructor(report: CheckReport) {
    super(report.text);
    this.report = report;
  }
}
Object.defineProperty(CheckFailedError.prototype, 'name', {
  value: 'CheckFailedError',
  configurable: true,
  writable: true,
});

/** Opens clients of the store under test, as the suite asks for them. */
class Opener extends HostObject {
  /** Kept until the suite is over: the native side knows them by number. */
  readonly #clients: Backend[] = [];
  readonly #open: () => Backend | Promise<Backend>;

  constructor(open: () => Backend | Promise<Backend>) {
    super({});
    this.#open = open;
  }

  protected override async call(): Promise<number> {
    const client = await this.#open();
    this.#clients.push(client);
    return (engineOf(client) ?? hostBackend(client)).offer(port.native);
  }
}

/**
 * Holds a backend against the contract: the race, repeat safety, history, trimming, manual runs, and
 * on a backend with `runs` every rule of leases, also on random histories against the reference.
 *
 * @param open - opens one more client of the *same* store each time; the suite initialises the
 *   clients and closes them. An object that is the store itself may be returned each time
 * @param options - see {@link CheckOptions}
 * @returns how all cases ended
 * @throws {@link CheckFailedError} with what failed, if a case failed; {@link AnarchonError}
 *   `INVALID_OPTION`
 *
 * @example
 * ```ts
 * import { MemoryBackend } from 'anarchon';
 * import { checkBackend } from 'anarchon/testing';
 *
 * const store = new MemoryBackend();
 * const report = await checkBackend(() => store, { rounds: 5, histories: 3 });
 * console.log(report.text); // memory: … passed, 0 failed, … skipped
 * ```
 */
export async function checkBackend(
  open: () => Backend | Promise<Backend>,
  options: CheckOptions = {},
): Promise<CheckReport> {
  if (typeof open !== 'function') {
    throw new AnarchonError(
      'INVALID_OPTION',
      `checkBackend was given ${show(open)}; allowed is a function that opens a backend`,
    );
  }
  checkNames('checkBackend', options, OPTIONS);
  const opener = new Opener(open);
  const target = port.register(opener);
  const text = await port.ask(
    (ask) => native.checkBackend(port.native, ask, target, encode('options', options)),
    { owner: opener },
  );
  const answer = JSON.parse(text ?? 'null') as {
    passed: boolean;
    text: string;
    report: Omit<CheckReport, 'text'>;
  };
  const report = { ...answer.report, text: answer.text };
  if (!answer.passed) throw new CheckFailedError(report);
  return report;
}

/**
 * The names of all cases of {@link checkBackend}, in order, for a test of its own for each:
 *
 * @example
 * ```ts
 * import { test } from 'node:test';
 * import { MemoryBackend } from 'anarchon';
 * import { backendCases, checkBackend } from 'anarchon/testing';
 *
 * const store = new MemoryBackend();
 * for (const name of backendCases()) {
 *   test(name, async () => {
 *     await checkBackend(() => store, { only: [name], rounds: 3, histories: 2 });
 *   });
 * }
 * ```
 */
export function backendCases(): string[] {
  return native.caseNames();
}
