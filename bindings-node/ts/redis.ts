/** The store in Redis or Valkey. */

import { BuiltInBackend, opened } from './builtin';
import { native } from './native';
import { withOptions } from './url';

/** Options of {@link RedisBackend}; all but `url` have a default. */
export interface RedisBackendOptions {
  /** `redis://user:password@host:port/db`; `rediss:` is with TLS, `valkey(s):` means the same. */
  url: string;
  /** Keeps applications on one server apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** What all keys begin with, 1 to 64 of `A-Z a-z 0-9 . _ -`; default `'anarchon'`. */
  prefix?: string;
  /** Connections, beside one that is kept for heartbeats, 1 to 64; default 1. */
  pool?: number;
  /** Whether the server is a node of a Redis Cluster; default false. */
  cluster?: boolean;
  /** More nodes of the cluster (`'host:port'`), in case the first one is away at the start. */
  nodes?: readonly string[];
  /** A file with the certificates of the authorities that are trusted (PEM). */
  tlsCa?: string;
  /** A file with our own certificate (PEM); needs `tlsKey`. */
  tlsCert?: string;
  /** A file with the key of our own certificate (PEM). */
  tlsKey?: string;
  /** How many replicas must have a change before it counts as made, 0 to 100; default 0. */
  waitReplicas?: number;
  /** How long replicas are waited for (ms), 1 to 600 000; default 1000. */
  waitTimeoutMs?: number;
  /** How long connecting and a single answer may take (ms); default 5000. */
  callTimeoutMs?: number;
  /** Starts in spite of an eviction policy that can drop the claims of won slots; default false. */
  allowEviction?: boolean;
}

/**
 * A store in Redis or Valkey, with leases, for any number of machines.
 *
 * @example
 * ```ts
 * import { RedisBackend, Scheduler } from 'anarchon';
 *
 * const backend = new RedisBackend({ url: 'redis://localhost:6379/0', prefix: 'shop' });
 * const scheduler = new Scheduler({ backend });
 * ```
 */
export class RedisBackend extends BuiltInBackend {
  readonly name: string = 'redis';

  /**
   * @param options - a URL, or {@link RedisBackendOptions}
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | RedisBackendOptions) {
    const { url, ...others } = typeof options === 'string' ? { url: options } : options;
    const full = withOptions('RedisBackend', url, others);
    super(opened(() => native.NativeBackend.open(full, ['redis', 'rediss', 'valkey', 'valkeys'])));
  }
}
