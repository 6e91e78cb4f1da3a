// Bad input: every kind of wrong option, schedule, URL, path and name is refused with its code, and
// with what was given and what is allowed.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { AnarchonError, MemoryBackend, Scheduler, SqliteBackend } from 'anarchon';
import { ManualClock } from 'anarchon/testing';
import { folder, play } from './program.mjs';

const quiet = { backend: 'memory:', logger: false };
const scheduler = (options = {}) => new Scheduler({ ...quiet, ...options });
const refuses =
  (code, ...texts) =>
  (error) => {
    assert.ok(error instanceof AnarchonError, `${error?.stack ?? error}`);
    assert.equal(error.code, code, error.message);
    assert.equal(error.name, 'AnarchonError');
    for (const text of texts) assert.ok(error.message.includes(text), `${error.message} | ${text}`);
    return true;
  };

describe('job options', () => {
  for (const [what, options, ...texts] of [
    ['an unknown one', { timeoutMS: 1 }, 'timeoutMS', 'timeoutMs'],
    ['NaN', { jitterMs: Number.NaN }, 'jitterMs', 'NaN'],
    ['Infinity', { timeoutMs: Number.POSITIVE_INFINITY }, 'timeoutMs', 'Infinity'],
    ['a negative one', { maxLateMs: -1 }, 'maxLateMs', '-1'],
    ['a fraction', { timeoutMs: 1.5 }, 'timeoutMs', '1.5'],
    ['a duration without unit', { timeoutMs: '90' }, 'timeoutMs', '90'],
    ['a function', { timeoutMs: () => 5 }, 'timeoutMs', 'a function'],
    ['a big integer beyond ms', { timeoutMs: 2n ** 80n }, 'timeoutMs'],
    ['a text for a flag', { keepOutput: 'yes' }, 'keepOutput', 'true or false'],
    ['a word that is none', { overlap: 'queue' }, 'overlap', 'skip'],
    ['a short lease', { leaseMs: 500 }, 'leaseMs', '1000'],
    ['an unknown part of retries', { retries: { attempt: 3 } }, 'attempt', 'attempts'],
    ['a jitter above the period', { jitterMs: '2h' }, 'jitterMs', '3600000'],
    ['an option of cron jobs', { timezone: 'UTC' }, 'timezone', 'cron'],
    ['a number', 5, '5', 'an object'],
    ['an array', [], 'an array', 'an object'],
  ]) {
    test(`${what} is refused`, () => {
      assert.throws(
        () => scheduler().every('job', '1h', () => {}, options),
        refuses('INVALID_OPTION', ...texts),
      );
    });
  }

  test('undefined and null mean not given', () => {
    scheduler().every('job', '1h', () => {}, { jitterMs: undefined, timeoutMs: null });
  });

  test('defaults are judged with the scheduler', () => {
    assert.throws(
      () => scheduler({ defaults: { leaseMs: 1 } }),
      refuses('INVALID_OPTION', 'leaseMs'),
    );
  });
});

describe('names and handlers', () => {
  for (const [what, name] of [
    ['empty', ''],
    ['too long', 'x'.repeat(256)],
    ['with a control character', 'a\u0000b'],
    ['half a surrogate pair', 'a\ud800b'],
    ['a number', 7],
    ['nothing', undefined],
  ]) {
    test(`a name that is ${what} is refused`, () => {
      assert.throws(
        () => scheduler().every(name, '1h', () => {}),
        refuses('INVALID_OPTION', 'name'),
      );
    });
  }

  test('a name of 255 bytes, and one in any script, is allowed', () => {
    scheduler().every('x'.repeat(255), '1h', () => {});
    scheduler().every('日報 🗞 "quoted"', '1h', () => {});
  });

  test('a second job of the same name is refused, and the first one stays', async () => {
    const one = scheduler();
    one.every('job', '1h', () => {});
    assert.throws(() => one.cron('job', '* * * * *', () => {}), refuses('DUPLICATE_JOB', 'job'));
    assert.deepEqual(
      one.jobs.map((job) => job.name),
      ['job'],
    );
  });

  test('a handler that is no function is refused', () => {
    assert.throws(
      () => scheduler().every('job', '1h', 'later'),
      refuses('INVALID_OPTION', '"job"', '"later"', 'a function'),
    );
  });

  test('a job that is not there is refused by name', () => {
    assert.throws(() => scheduler().remove('job'), refuses('UNKNOWN_JOB', 'job'));
    assert.throws(() => scheduler().nextSlots('job', 1), refuses('UNKNOWN_JOB', 'job'));
  });
});

describe('schedules', () => {
  for (const [what, add] of [
    ['an interval of less than 100 ms', (s) => s.every('job', 99, () => {})],
    ['a fraction of ms', (s) => s.every('job', 100.5, () => {})],
    ['no interval', (s) => s.every('job', undefined, () => {})],
    ['an invalid Date', (s) => s.at('job', new Date('tomorrow'), () => {})],
    ['an instant without an offset', (s) => s.at('job', '2030-01-31T09:00:00', () => {})],
    ['a cron expression that is none', (s) => s.cron('job', '* * *', () => {})],
    ['a cron expression that is a number', (s) => s.cron('job', 5, () => {})],
    ['a zone that is none', (s) => s.cron('job', '* * * * *', () => {}, { timezone: 'Berlin' })],
  ]) {
    test(`${what} is refused`, () => {
      assert.throws(
        () => add(scheduler()),
        (error) => {
          assert.ok(error instanceof AnarchonError, String(error));
          assert.match(error.code, /^INVALID_(SCHEDULE|OPTION)$/);
          return true;
        },
      );
    });
  }

  test('an instant may be a Date, a number or a text with an offset', () => {
    const at = Date.UTC(2040, 0, 31, 9);
    for (const when of [new Date(at), at, '2040-01-31T10:00:00+01:00']) {
      const one = scheduler();
      one.at('job', when, () => {});
      assert.deepEqual(one.nextSlots('job', 2), [at]);
    }
  });
});

describe('scheduler options', () => {
  for (const [what, options, ...texts] of [
    ['an unknown one', { timezon: 'UTC' }, 'timezon', 'timezone'],
    ['a namespace with a capital', { namespace: 'Shop' }, 'namespace', 'Shop'],
    ['a negative number of places', { maxConcurrentRuns: -1 }, 'maxConcurrentRuns', '-1'],
    ['a backend that is a number', { backend: 5 }, 'backend', '5'],
    ['a URL of no store', { backend: 'mongodb://localhost' }, 'mongodb'],
    ['keepAlive that is a text', { keepAlive: 'no' }, 'keepAlive', '"no"'],
    ['a zone that is none', { timezone: 'Mars/Base' }, 'Mars/Base'],
  ]) {
    test(`${what} is refused`, () => {
      assert.throws(() => scheduler(options), refuses('INVALID_OPTION', ...texts));
    });
  }

  test('options that are no object are refused', () => {
    assert.throws(() => new Scheduler('memory:'), refuses('INVALID_OPTION', '"memory:"'));
  });

  test('a clock that is none is refused', () => {
    assert.throws(
      () => scheduler({ clock: {} }),
      refuses('INVALID_OPTION', 'clock', 'ManualClock'),
    );
  });

  test('a manual clock with a store that has its own is refused', (t) => {
    const path = join(folder(t), 'jobs.db');
    assert.throws(
      () => new Scheduler({ backend: `sqlite:${path}`, clock: new ManualClock(), logger: false }),
      refuses('INVALID_OPTION', 'clock'),
    );
  });

  test('a URL with a password is never shown', () => {
    assert.throws(
      () => scheduler({ backend: 'mongodb://me:hunter2@db/jobs' }),
      (error) => !error.message.includes('hunter2') && !String(error.stack).includes('hunter2'),
    );
  });
});

describe('options of calls', () => {
  for (const [what, call] of [
    ['start', (s) => s.start({ signal: true })],
    ['stop', (s) => s.stop({ grace: 5 })],
    ['runNow', (s) => s.runNow('job', { forced: true })],
    ['history', (s) => s.history('job', { limt: 5 })],
    ['pause', (s) => s.pause('job', { why: 'holiday' })],
    ['cancel', (s) => s.cancel('job', { slots: 5 })],
  ]) {
    test(`${what} refuses an unknown one`, async () => {
      await assert.rejects(() => call(scheduler()), refuses('INVALID_OPTION', 'the options are'));
    });
  }

  test('values of the wrong type are refused', async () => {
    const one = scheduler();
    one.every('job', '1h', () => {});
    await assert.rejects(one.start({ wait: 'no' }), refuses('INVALID_OPTION', 'wait', '"no"'));
    await assert.rejects(one.stop({ graceMs: -1 }), refuses('INVALID_OPTION', 'graceMs', '-1'));
    await assert.rejects(one.runNow('job', { slot: 'now' }), refuses('INVALID_OPTION', 'slot'));
    await assert.rejects(one.history('job', { limit: 0 }), refuses('INVALID_OPTION', 'limit', '0'));
    await assert.rejects(one.explain('job', Number.NaN), refuses('INVALID_OPTION', 'slot', 'NaN'));
    assert.throws(() => one.nextSlots('job', -1), refuses('INVALID_OPTION', 'count', '-1'));
    await one.stop();
  });
});

describe('built-in backends', () => {
  test('an unknown option is refused', () => {
    assert.throws(() => new MemoryBackend({ clok: 1 }), refuses('INVALID_OPTION', 'clok', 'clock'));
    assert.throws(
      () => new SqliteBackend({ path: 'x.db', pol: 4 }),
      refuses('INVALID_OPTION', 'pol', 'pool'),
    );
  });

  for (const [what, options, ...texts] of [
    ['no path', {}, 'path', 'undefined'],
    ['an empty path', '', 'empty'],
    [':memory:', ':memory:', ':memory:', 'memory:'],
    ['a pool of 0', { path: 'x.db', pool: 0 }, 'pool', '0'],
    ['a word that is none', { path: 'x.db', synchronous: 'off' }, 'synchronous', 'full'],
  ]) {
    test(`SqliteBackend: ${what} is refused`, () => {
      assert.throws(() => new SqliteBackend(options), refuses('INVALID_OPTION', ...texts));
    });
  }

  test('a missing directory is refused at the start, and nothing is created', async (t) => {
    const path = folder(t);
    const one = new Scheduler({ backend: `sqlite:${path}/no/jobs.db`, logger: false });
    await assert.rejects(one.start(), refuses('BACKEND_REFUSED', 'does not exist'));
    assert.equal(one.running, false);
    assert.deepEqual(readdirSync(path), []);
  });

  test('a reader of a file that is not there creates none', async (t) => {
    const path = folder(t);
    const one = new Scheduler({ backend: `sqlite:${path}/jobs.db`, logger: false });
    await assert.rejects(one.history('job'), refuses('BACKEND_REFUSED', 'no database'));
    await one.stop();
    assert.deepEqual(readdirSync(path), []);
  });
});

describe('without a backend', () => {
  const code = `
    import { Scheduler } from 'anarchon';
    try {
      const scheduler = new Scheduler();
      scheduler.every('job', '1h', () => {});
      await scheduler.start();
      console.log(scheduler.backend.name);
      await scheduler.stop();
    } catch (error) {
      console.log(error.code, error.message);
    }
  `;

  test('the variable ANARCHON_URL names it', async (t) => {
    const { stdout } = await play(t, code, { env: { ANARCHON_URL: 'memory:' } });
    assert.equal(stdout, 'memory\n');
  });

  test('the embedded default is announced with its path', async (t) => {
    const { stdout, stderr } = await play(t, code);
    assert.equal(stdout, 'sqlite\n');
    assert.match(stderr, /\/anarchon\.db/);
    assert.match(stderr, /this machine only/);
  });

  test('where an orchestrator shows, the silent default is refused', async (t) => {
    const { stdout } = await play(t, code, { env: { KUBERNETES_SERVICE_HOST: '10.0.0.1' } });
    assert.match(stdout, /^BACKEND_REQUIRED .*ANARCHON_URL/);
  });
});
