/** The store in PostgreSQL. */

import { BuiltInSqlBackend } from './builtin';
import { type SqlServerOptions, serverEngine } from './server';
import type { SqlDatabaseOptions } from './sql';

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
export type PostgresDatabaseOptions = SqlDatabaseOptions;

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
    super(serverEngine('PostgresBackend', ['postgres', 'postgresql'], options));
  }
}
