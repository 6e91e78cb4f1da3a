// What became of the cases of the contract, for the table at the end of `make test`.
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Leaves a report where `.make/suites.py` collects them, if it runs this.
 *
 * @param store - the name of the row: the store, and by what it was reached
 * @param report - what `checkBackend` resolved with
 */
export function tally(store, { cases }) {
  const folder = process.env.ANARCHON_TEST_TALLY;
  if (!folder) return;
  const file = join(folder, `node-${randomBytes(8).toString('hex')}.json`);
  writeFileSync(file, JSON.stringify({ language: 'node', store, cases }));
}
