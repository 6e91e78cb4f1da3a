/** What the SQL servers have in common. */

import { opened } from './builtin';
import type { NativeBackend } from './native';
import { native } from './native';
import { engineOver, type SqlDatabaseOptions } from './sql';
import { withOptions } from './url';

/** Options of a SQL server; all but the URL have a default. */
export interface SqlServerOptions {
  /** Keeps applications in one database apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** Connections at most, beside one that is kept for heartbeats, 1 to 1000; default 8. */
  pool?: number;
  /** Whether missing tables are created; default true. With `false`, `ddl()` tells what to create. */
  createTables?: boolean;
  /**
   * Prepared statements kept per connection, 0 to 10 000; default 100. 0 for poolers that give each
   * transaction another connection (PgBouncer before 1.21, ProxySQL).
   */
  statementCache?: number;
  /** The name of the runs table, 1 to 48 of `a-z 0-9 _`; the others are named after it. */
  table?: string;
  /** How long a call is tried again (ms), 1 to 600 000; default 5000. */
  callTimeoutMs?: number;
  /** How far the connection is encrypted; default as the database's own clients choose it. */
  sslMode?: 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';
  /** A file with the certificates of the authorities that are trusted (PEM). */
  sslCa?: string;
  /** A file with our own certificate (PEM); needs `sslKey`. */
  sslCert?: string;
  /** A file with the key of our own certificate (PEM). */
  sslKey?: string;
}

/**
 * The engine of a store at a URL, or over a client of the user's; the first of the URL's schemes is
 * the store's name.
 */
export function serverEngine(
  what: string,
  schemes: readonly [string, ...string[]],
  given: string | ({ url: string } & SqlServerOptions) | SqlDatabaseOptions,
): () => NativeBackend {
  const options = typeof given === 'string' ? { url: given } : given;
  if ('database' in options) return engineOver(what, schemes[0], options);
  const { url, ...others } = options;
  const full = withOptions(what, url, others);
  return opened(() => native.NativeBackend.open(full, [...schemes]));
}
