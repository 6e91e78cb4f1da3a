/** The store in PostgreSQL. */

import { BuiltInSqlBackend, lazily, opened } from './builtin';
import { checkNames } from './encode';
import type { NativeBackend } from './native';
import { native } from './native';
import type { SqlServerOptions } from './server';
import { checkClient, type SqlClient, WrappedClient } from './sql';
import { withOptions } from './url';

/** Options of {@link PostgresBackend}; all but `url` have a default. */
export interface PostgresBackendOptions extends SqlServerOptions {
  /** `postgres://user:password@host:port/database`; what it leaves out is taken from `PGHOST` … */
  url: string;
  /** The schema of the tables, which must exist; default the first of the search path. */
  schema?: string;
  /** Whether `NOTIFY` tells other instances of what was given back or has ended; default true. */
  notify?: boolean;
  /** Shown in `pg_stat_activity`; default `'anarchon'`. */
  applicationName?: string;
}

/** A PostgreSQL store over a client that your program has; see {@link SqlClient}. */
export interface PostgresDatabaseOptions {
  /** The client. It is not closed, since it was not opened here. */
  database: SqlClient;
  /** Keeps applications in one database apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** Whether missing tables are created; default true. */
  createTables?: boolean;
  /** The name of the runs table, 1 to 48 of `a-z 0-9 _`; default `anarchon_runs`. */
  table?: string;
}

/**
 * A store in PostgreSQL, with leases, for any number of machines.
 *
 * On a client of your own heartbeats go through the event loop: a program that blocks its loop for
 * longer than a lease can lose it. On a URL they do not.
 *
 * @example
 * ```ts
 * import { PostgresBackend, Scheduler } from 'anarchon';
 *
 * const backend = new PostgresBackend({ url: 'postgres://localhost/app', pool: 4 });
 * const scheduler = new Scheduler({ backend });
 * ```
 */
export class PostgresBackend extends BuiltInSqlBackend {
  readonly name: string = 'postgres';

  /**
   * @param options - a URL, {@link PostgresBackendOptions}, or a client of yours
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | PostgresBackendOptions | PostgresDatabaseOptions) {
    super(engineFor(typeof options === 'string' ? { url: options } : options));
  }
}

function engineFor(options: PostgresBackendOptions | PostgresDatabaseOptions): () => NativeBackend {
  if (!('database' in options)) {
    const { url, ...others } = options;
    const full = withOptions('PostgresBackend', url, others);
    return opened(() => native.NativeBackend.open(full, ['postgres', 'postgresql']));
  }
  checkNames('PostgresBackend', options, ['database', 'namespace', 'createTables', 'table']);
  const { database, ...plain } = options;
  const client = new WrappedClient('PostgresBackend', { database: checkClient(database) });
  return lazily(() => client.open({ ...plain, name: 'postgres', dialect: 'postgres' }));
}
