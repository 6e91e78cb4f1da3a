// The given values of tests/vectors/schedules.json, asked of the package as a user asks.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { AnarchonError, Scheduler } from 'anarchon';

const vectors = JSON.parse(
  readFileSync(new URL('../vectors/schedules.json', import.meta.url), 'utf8'),
);

const ADD = {
  cron: (scheduler, { expression, zone, seconds }) =>
    scheduler.cron('job', expression, () => {}, {
      ...(zone === undefined ? {} : { timezone: zone }),
      ...(seconds === undefined ? {} : { seconds }),
    }),
  every: (scheduler, { interval, offset_ms }) =>
    scheduler.every('job', interval, () => {}, { jitterMs: 0, offsetMs: offset_ms ?? 0 }),
  // What lies in the past is judged by the store; here only the reading of the instant is.
  at: (scheduler, { when }) => scheduler.at('job', when, () => {}),
};

function register(vector) {
  const scheduler = new Scheduler({ backend: 'memory:', logger: false });
  ADD[vector.kind](scheduler, vector);
  return scheduler;
}

// The core takes offsets below 0; as an option they are refused.
const ours = vectors.filter((vector) => vector.kind in ADD && !(vector.offset_ms < 0));
const slots = ours.filter((vector) => vector.expect !== undefined);
const refused = ours.filter((vector) => vector.refuse);

describe('the given slots', () => {
  for (const vector of slots) {
    test(`${vector.id}`, () => {
      const count = vector.expect.length + (vector.ends ? 1 : 0);
      const found = register(vector).nextSlots('job', count, new Date(vector.after));
      const expected = vector.expect.map((text) => Date.parse(text));
      assert.deepEqual(found, expected);
    });
  }
});

describe('the given refusals', () => {
  for (const vector of refused) {
    test(`${vector.id}`, () => {
      assert.throws(
        () => register(vector),
        (error) => {
          assert.ok(error instanceof AnarchonError, String(error));
          assert.equal(error.code, vector.code);
          for (const text of vector.message_contains ?? []) {
            assert.ok(error.message.includes(text), `${error.message} does not say ${text}`);
          }
          return true;
        },
      );
    });
  }
});

test('the vectors are many', () => {
  assert.ok(slots.length > 50, `${slots.length}`);
  assert.ok(refused.length > 20, `${refused.length}`);
});
