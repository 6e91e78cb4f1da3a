/** The store in MySQL or MariaDB. */

import { BuiltInSqlBackend } from './builtin';
import { type SqlServerOptions, serverEngine } from './server';
import type { SqlDatabaseOptions } from './sql';

/** Options of {@link MySqlBackend}; all but `url` have a default. */
export interface MySqlBackendOptions extends SqlServerOptions {
  /** `mysql://user:password@host:port/database`, or the same with `mariadb:`. */
  url: string;
  /**
   * Takes a server that does not wait for its disk (`innodb_flush_log_at_trx_commit = 0`) and forgets
   * up to a second of claims when it is killed; default false.
   */
  allowLazyFlush?: boolean;
}

/** A MySQL or MariaDB store over a client that your program has; see {@link SqlClient}. */
export type MySqlDatabaseOptions = SqlDatabaseOptions;

/**
 * A store in MySQL or MariaDB, with leases, for any number of machines.
 *
 * On a client of your own heartbeats go through the event loop: a program that blocks its loop for
 * longer than a lease can lose it. On a URL they do not.
 *
 * @example
 * ```ts
 * import { MySqlBackend, Scheduler } from 'anarchon';
 *
 * const backend = new MySqlBackend('mysql://root@localhost/app');
 * const scheduler = new Scheduler({ backend });
 * ```
 */
export class MySqlBackend extends BuiltInSqlBackend {
  readonly name: string = 'mysql';

  /**
   * @param options - a URL, {@link MySqlBackendOptions}, or a client of yours
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | MySqlBackendOptions | MySqlDatabaseOptions) {
    super(serverEngine('MySqlBackend', ['mysql', 'mariadb'], options));
  }
}
