// buildHistory: from the claims and results of a store to what history() shows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnarchonError, buildHistory } from 'anarchon';

const claim = (slot, more = {}) => ({ slot, by: 'a', at: slot + 4, manual: false, ...more });
const result = (slot, more = {}) => ({
  slot,
  manual: false,
  by: 'a',
  status: 'succeeded',
  startedAt: slot + 5,
  endedAt: slot + 25,
  ...more,
});
const build = (claims, results, limit = 20) =>
  buildHistory({ job: 'tick', claims, results, limit });

test('a claim and its result are one record', () => {
  assert.deepEqual(build([claim(1_000)], [result(1_000, { output: '"done"' })]), [
    {
      job: 'tick',
      slot: 1_000,
      manual: false,
      by: 'a',
      at: 1_004,
      status: 'succeeded',
      startedAt: 1_005,
      endedAt: 1_025,
      durationMs: 20,
      output: '"done"',
    },
  ]);
});

test('the newest slot comes first, at most as many as asked for', () => {
  const claims = [claim(2_000), claim(3_000), claim(1_000)];
  assert.deepEqual(
    build(claims, [], 2).map((run) => run.slot),
    [3_000, 2_000],
  );
});

test('a claim without a result is unfinished, a result without a claim is shown too', () => {
  const records = build([claim(1_000)], [result(2_000)]);
  assert.deepEqual(
    records.map((run) => [run.slot, run.status]),
    [
      [2_000, 'succeeded'],
      [1_000, 'unfinished'],
    ],
  );
});

test('a manual and a scheduled run of one slot are two records', () => {
  const records = build(
    [claim(1_000), claim(1_000, { manual: true, by: 'b' })],
    [result(1_000), result(1_000, { manual: true, by: 'b', status: 'failed' })],
  );
  assert.deepEqual(records.map((run) => [run.manual, run.by, run.status]).sort(), [
    [false, 'a', 'succeeded'],
    [true, 'b', 'failed'],
  ]);
});

test('fields that the library does not know do no harm', () => {
  const [record] = build([claim(1_000, { job: 'tick', token: 't', mine: { a: 1 } })], []);
  assert.deepEqual(Object.keys(record).sort(), ['at', 'by', 'job', 'manual', 'slot', 'status']);
});

test('a claim that lacks a field is refused by name', () => {
  assert.throws(
    () => build([{ slot: 1_000 }], []),
    (error) =>
      error instanceof AnarchonError &&
      error.code === 'INVALID_OPTION' &&
      /claims.*`by`/.test(error.message),
  );
});
