/** The store in NATS JetStream. */

import { BuiltInBackend, opened } from './builtin';
import { native } from './native';
import { withOptions } from './url';

/** Options of {@link NatsBackend}; all but `url` have a default. */
export interface NatsBackendOptions {
  /**
   * `nats://user:password@host:port,host:port`, or `nats://token@host`; `nats+tls:` and `tls:` are
   * with TLS.
   */
  url: string;
  /** Keeps applications on one server apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /**
   * The name of the stream, and what all subjects begin with, 1 to 64 of `A-Z a-z 0-9 _ -`;
   * default `'anarchon'`.
   */
  prefix?: string;
  /**
   * How many servers of a cluster keep the stream: 1, 3 or 5; default: as the stream is, and 1 for
   * one that is made.
   */
  replicas?: number;
  /** A file with the seed of an nkey. */
  nkeyFile?: string;
  /** A credentials file (`.creds`). */
  credentialsFile?: string;
  /** A file with the certificates of the authorities that are trusted (PEM). */
  tlsCa?: string;
  /** A file with our own certificate (PEM); needs `tlsKey`. */
  tlsCert?: string;
  /** A file with the key of our own certificate (PEM). */
  tlsKey?: string;
  /** The domain of JetStream, if it is not the server's own. */
  domain?: string;
  /** How long connecting and a single answer may take (ms); default 5000. */
  callTimeoutMs?: number;
  /** Takes a stream in the server's memory, whose restart forgets every claim; default false. */
  allowMemory?: boolean;
}

/**
 * A store in NATS JetStream (2.9 and later), with leases, for any number of machines.
 *
 * @example
 * ```ts
 * import { NatsBackend, Scheduler } from 'anarchon';
 *
 * const backend = new NatsBackend({ url: 'nats://localhost:4222', prefix: 'shop' });
 * const scheduler = new Scheduler({ backend });
 * ```
 */
export class NatsBackend extends BuiltInBackend {
  readonly name: string = 'nats';

  /**
   * @param options - a URL, or {@link NatsBackendOptions}
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | NatsBackendOptions) {
    const { url, ...others } = typeof options === 'string' ? { url: options } : options;
    const full = withOptions('NatsBackend', url, others);
    super(opened(() => native.NativeBackend.open(full, ['nats', 'nats+tls', 'tls'])));
  }
}
