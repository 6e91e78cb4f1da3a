/** The store in a SQLite file. */

import { BuiltInSqlBackend, opened } from './builtin';
import { checkNames, show } from './encode';
import { AnarchonError } from './errors';
import { type NativeBackend, native } from './native';
import { engineOver, type SqlDatabaseOptions } from './sql';
import { withOptions } from './url';

/** A SQLite store over a connection that your program has; see {@link SqlClient}. */
export type SqliteDatabaseOptions = SqlDatabaseOptions;

/** Options of {@link SqliteBackend}; all but `path` have a default. */
export interface SqliteBackendOptions {
  /** The file, relative to the working directory or absolute. Its directory must exist. */
  path: string;
  /** Keeps applications in one file apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** Connections at most, beside one that is kept for heartbeats, from 1; default 4. */
  pool?: number;
  /** Whether missing tables are created; default true. */
  createTables?: boolean;
  /**
   * When SQLite waits for the disk. `'full'` (default) and `'extra'`: at every commit; `'normal'`:
   * now and then, so that a loss of power may take back the last claims.
   */
  synchronous?: 'full' | 'extra' | 'normal';
  /** How long one attempt waits for another process that writes (ms); default 2000. */
  busyTimeoutMs?: number;
  /** The name of the runs table, 1 to 48 of `a-z 0-9 _`; the others are named after it. */
  table?: string;
  /** How long a call is tried again (ms); default 5000. */
  callTimeoutMs?: number;
  /** Allows a file on a network file system, whose locks cannot be relied on; default false. */
  allowNetwork?: boolean;
}

const SQLITE_OPTIONS: readonly (keyof SqliteBackendOptions)[] = [
  'path',
  'namespace',
  'pool',
  'createTables',
  'synchronous',
  'busyTimeoutMs',
  'table',
  'callTimeoutMs',
  'allowNetwork',
];

/** The URL of a SQLite store with its options; the native part judges them. */
function sqliteUrl({ path, ...options }: SqliteBackendOptions): string {
  if (typeof path !== 'string') {
    throw new AnarchonError(
      'INVALID_OPTION',
      `SqliteBackend: path is ${show(path)}; allowed is the path of a file, like 'jobs.db'`,
    );
  }
  const escaped = path.replace(/[%?#]/g, encodeURIComponent);
  return withOptions('SqliteBackend', `sqlite://${escaped}`, options);
}

/**
 * A store in a SQLite file, with leases, for the processes of one machine.
 *
 * @example
 * ```ts
 * import { Scheduler, SqliteBackend } from 'anarchon';
 *
 * const scheduler = new Scheduler({ backend: new SqliteBackend('jobs.db') });
 * ```
 */
export class SqliteBackend extends BuiltInSqlBackend {
  readonly name: string = 'sqlite';

  /**
   * @param options - the path of the file, {@link SqliteBackendOptions}, or a connection of yours
   * @throws {@link AnarchonError} `INVALID_OPTION`
   */
  constructor(options: string | SqliteBackendOptions | SqliteDatabaseOptions) {
    super(engineFor(typeof options === 'string' ? { path: options } : options));
  }
}

function engineFor(options: SqliteBackendOptions | SqliteDatabaseOptions): () => NativeBackend {
  if (!('database' in options)) {
    checkNames('SqliteBackend', options, SQLITE_OPTIONS);
    return opened(() => native.NativeBackend.open(sqliteUrl(options), ['sqlite']));
  }
  return engineOver('SqliteBackend', 'sqlite', options);
}
