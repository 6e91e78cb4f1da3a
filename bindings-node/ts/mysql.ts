/** The store in MySQL or MariaDB. */

import { BuiltInSqlBackend, opened } from './builtin';
import { native } from './native';
import type { SqlServerOptions } from './server';
import { withOptions } from './url';

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

/**
 * A store in MySQL or MariaDB, with leases, for any number of machines.
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
   * @param options - a URL, or {@link MySqlBackendOptions}
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | MySqlBackendOptions) {
    const { url, ...others } = typeof options === 'string' ? { url: options } : options;
    const full = withOptions('MySqlBackend', url, others);
    super(opened(() => native.NativeBackend.open(full, ['mysql', 'mariadb'])));
  }
}
