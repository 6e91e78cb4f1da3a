/** The store in RabbitMQ. */

import { ClaimsBackend, opened } from './builtin';
import { native } from './native';
import { withOptions } from './url';

/** Options of {@link RabbitMqBackend}; all but `url` have a default. */
export interface RabbitMqBackendOptions {
  /** `amqp://user:password@host:port/vhost`; `amqps:` is with TLS. */
  url: string;
  /** Keeps applications on one server apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** What the names of all queues begin with, 1 to 64 of `A-Z a-z 0-9 . _ -`; default `'anarchon'`. */
  prefix?: string;
  /**
   * How long a claimed slot is remembered (ms), 1000 to 1 209 600 000; default 3 600 000. A job
   * whose `jitterMs` and `maxLateMs` are together not shorter is refused with
   * `DEDUPE_WINDOW_TOO_SHORT`.
   */
  dedupeWindowMs?: number;
  /** Claims that are under way at once, 1 to 256; default 16. */
  channels?: number;
  /** How many bytes of records are kept for a job, 1 MiB to 1 GiB; default 2 MiB. */
  historyBytes?: number;
  /** How long connecting and a single answer may take (ms); default 5000. */
  callTimeoutMs?: number;
  /** A file with certificates of authorities that are trusted beside the system's (PEM). */
  tlsCa?: string;
  /** A file with our own certificate (PEM); needs `tlsKey`. */
  tlsCert?: string;
  /** A file with the key of our own certificate (PEM). */
  tlsKey?: string;
}

/**
 * A store in RabbitMQ, without leases, for any number of machines.
 *
 * Each slot is claimed once; there are no backups, no catch-up and no overlap protection, and
 * options that need them are refused with `LEASES_REQUIRED`. RabbitMQ has no clock to ask: what is
 * too early or too old is judged by ours.
 *
 * @example
 * ```ts
 * import { RabbitMqBackend, Scheduler } from 'anarchon';
 *
 * const backend = new RabbitMqBackend({ url: 'amqp://localhost', dedupeWindowMs: 7_200_000 });
 * const scheduler = new Scheduler({ backend });
 * ```
 */
export class RabbitMqBackend extends ClaimsBackend {
  readonly name: string = 'rabbitmq';

  /**
   * @param options - a URL, or {@link RabbitMqBackendOptions}
   * @throws {@link AnarchonError} `INVALID_OPTION`; no message shows the URL's user and password
   */
  constructor(options: string | RabbitMqBackendOptions) {
    const { url, ...others } = typeof options === 'string' ? { url: options } : options;
    const full = withOptions('RabbitMqBackend', url, others);
    super(opened(() => native.NativeBackend.open(full, ['amqp', 'amqps'])));
  }
}
