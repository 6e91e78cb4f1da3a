/** SQL databases by your own client, and SQL databases that you describe. */

import { BuiltInSqlBackend, lazily } from './builtin';
import { checkNames, encode, isThenable, show } from './encode';
import { AnarchonError } from './errors';
import { HostObject, methodsOf } from './host';
import { type NativeBackend, native } from './native';
import { port } from './port';

/** Something that takes statements: a connection, or a transaction on one. */
export interface SqlQueryable {
  /**
   * Sends one statement and brings back its rows, one object each with the names of the columns; none
   * for a statement that has no rows. Whole numbers may come as numbers, bigints or digits.
   *
   * @param sql - the statement, with placeholders as the database wants them
   * @param params - texts, whole numbers and `null`
   */
  all(sql: string, params: unknown[]): Promise<readonly object[]>;
}

/** A database client: statements, and transactions. */
export interface SqlClient extends SqlQueryable {
  /**
   * Runs `fn` in a transaction: commits if its promise resolves, rolls back if it rejects. It may run
   * `fn` again. What the call resolves to is not looked at.
   */
  transaction(fn: (tx: SqlQueryable) => Promise<void>): Promise<unknown>;
  /** Closes the connections; called only if the backend opened the client. */
  close?(): Promise<void>;
}

/** What differs between SQL databases. */
export interface SqlDialect {
  /** The type of a 64-bit integer, for example `'BIGINT'`. */
  bigint: string;
  /**
   * An expression that reads the database server's clock: whole ms since the Unix epoch. It must not
   * be the clock of the transaction's start.
   */
  nowMs: string;
  /** What is put behind a `SELECT` to lock the rows that it reads; `''` where there is no such thing. */
  forUpdate: string;
  /** A statement with `?` for every parameter, in the database's own form (`$1`, `$2` …). */
  placeholders(sql: string): string;
  /** Further statements that create what this database needs beside the runs table `table`. */
  extraTables(table: string): string[];
  /** Makes two changes of one job take turns; called first in every transaction that changes it. */
  serialize(tx: SqlQueryable, job: string): Promise<void>;
  /** Whether this error says that what was to be created is there already. */
  isAlreadyCreated(error: unknown): boolean;
}

/** Refuses what cannot be a client. */
export function checkClient(client: unknown): SqlClient {
  const { all, transaction } = (client ?? {}) as Partial<SqlClient>;
  if (typeof all === 'function' && typeof transaction === 'function') return client as SqlClient;
  throw new AnarchonError(
    'INVALID_OPTION',
    `database is ${show(client)}; allowed is a client with the functions all(sql, params) and ` +
      'transaction(fn); fromSqliteDatabase, fromPg, fromPostgresJs and fromMysql2 make one of a driver',
  );
}

/** Where a client comes from. */
interface Source {
  /** A connection of the user's. */
  database?: SqlClient;
  /** Opens one. */
  connect?(): Promise<{ client: SqlClient; owned: boolean }>;
  checkServer?(): Promise<void>;
  dialect?: () => SqlDialect;
}

/** A store over a client that your program has; see {@link SqlClient}. */
export interface SqlDatabaseOptions {
  /** The client. It is not closed, since it was not opened here. */
  database: SqlClient;
  /** Keeps applications in one database apart, 1 to 64 of `a-z 0-9 _ -`; default `'default'`. */
  namespace?: string;
  /** Whether missing tables are created; default true. */
  createTables?: boolean;
  /** The name of the runs table, 1 to 48 of `a-z 0-9 _`; default `anarchon_runs`. */
  table?: string;
}

const DATABASE_OPTIONS: readonly (keyof SqlDatabaseOptions)[] = [
  'database',
  'namespace',
  'createTables',
  'table',
];

/** The engine of a store of ours over a client of the user's; the dialect is called like the store. */
export function engineOver(
  what: string,
  name: string,
  options: SqlDatabaseOptions,
): () => NativeBackend {
  checkNames(what, options, DATABASE_OPTIONS);
  const { database, ...plain } = options;
  const client = new WrappedClient(what, { database: checkClient(database) });
  return lazily(() => client.open({ ...plain, name, dialect: name }));
}

/** What the native engine is told. */
interface EngineOptions {
  name: string;
  table?: string;
  namespace?: string;
  createTables?: boolean;
  dialect: string | object;
}

const DEFAULT_TABLE = 'anarchon_runs';

/** A user's client and dialect as the one object that the native engine talks to. */
export class WrappedClient extends HostObject {
  readonly #name: string;
  readonly #source: Source;
  #client: SqlClient | undefined;

  constructor(name: string, source: Source) {
    super({});
    this.#name = name;
    this.#source = source;
  }

  /** The native engine; nothing of the user's is called yet. */
  open(options: EngineOptions): NativeBackend {
    const members = ['connect', 'checkServer', 'all', 'transaction', 'close'];
    const told = { table: DEFAULT_TABLE, ...options };
    return native.NativeBackend.hostSql(
      port.native,
      this.#name,
      port.register(this),
      members,
      encode('options', told),
    );
  }

  protected override call(member: string, args: unknown[]): unknown {
    switch (member) {
      case 'connect':
        return this.#connect();
      case 'checkServer':
        return this.#source.checkServer?.();
      case 'all':
        return send(this.#connected, this.#source.dialect?.(), args as [string, unknown[]]);
      case 'transaction':
        return this.#transaction(args[0] as number);
      case 'close': {
        const client = this.#client;
        this.#client = undefined;
        return client?.close?.();
      }
      default:
        throw new TypeError(`${this.#name} has no member ${member}`);
    }
  }

  async #connect(): Promise<{ owned: boolean }> {
    const { database, connect } = this.#source;
    if (database !== undefined) {
      this.#client = database;
      return { owned: false };
    }
    const answer = await connect?.();
    if (answer === undefined || answer === null || typeof answer.owned !== 'boolean') {
      throw new AnarchonError(
        'INVALID_OPTION',
        `${this.#name}.connect() resolved to ${show(answer)}; allowed is { client, owned }`,
      );
    }
    this.#client = checkClient(answer.client);
    return { owned: answer.owned };
  }

  get #connected(): SqlClient {
    if (this.#client !== undefined) return this.#client;
    throw new AnarchonError('BACKEND_UNAVAILABLE', `${this.#name} is not connected`);
  }

  #transaction(body: number): unknown {
    const dialect = this.#source.dialect?.();
    return this.#connected.transaction(async (tx) => {
      const target = new WrappedTransaction(tx, dialect);
      const id = port.register(target);
      // Kept by this closure until the body has ended; what comes after that is refused.
      const members = methodsOf(tx);
      await port.ask((ask) => port.native.runBody(ask, body, id, 'transaction', members), {
        owner: target,
      });
    });
  }
}

/** A transaction of the user's client as the native engine talks to it. */
class WrappedTransaction extends HostObject {
  readonly #tx: SqlQueryable;
  readonly #dialect: SqlDialect | undefined;

  constructor(tx: SqlQueryable, dialect: SqlDialect | undefined) {
    super({});
    this.#tx = tx;
    this.#dialect = dialect;
  }

  protected override call(member: string, args: unknown[]): unknown {
    if (member === 'serialize') return this.#dialect?.serialize(this.#tx, args[0] as string);
    return send(this.#tx, this.#dialect, args as [string, unknown[]]);
  }
}

/** Sends a statement as the dialect wants it. */
function send(
  queryable: SqlQueryable,
  dialect: SqlDialect | undefined,
  [sql, params]: [string, unknown[]],
): unknown {
  const given = params.map((param) => param ?? null);
  if (dialect === undefined) return queryable.all(sql, given);
  const creates = /^\s*CREATE\b/i.test(sql);
  const forgive = (error: unknown) => {
    if (creates && dialect.isAlreadyCreated(error)) return [];
    throw error;
  };
  try {
    const rows: unknown = queryable.all(dialect.placeholders(sql), given);
    return isThenable(rows) ? Promise.resolve(rows).catch(forgive) : rows;
  } catch (error) {
    return forgive(error);
  }
}

/**
 * A backend with leases on a SQL database that the library does not know: it brings the tables, the
 * claim transaction, leases and history; you give the connection and what differs.
 *
 * `nowMs` must read the database server's clock; `forUpdate` and `serialize` must make two claims of
 * one job take turns.
 *
 * @example
 * ```ts
 * import { SqlBackend, type SqlClient, type SqlDialect } from 'anarchon';
 *
 * export class MyBackend extends SqlBackend {
 *   readonly name = 'my-database';
 *   protected readonly dialect: SqlDialect = {
 *     bigint: 'BIGINT',
 *     nowMs: 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)',
 *     forUpdate: 'FOR UPDATE',
 *     placeholders: (sql) => sql,
 *     extraTables: () => [],
 *     serialize: async () => {},
 *     isAlreadyCreated: () => false,
 *   };
 *
 *   constructor(private readonly client: SqlClient) {
 *     super('anarchon_runs');
 *   }
 *
 *   protected async connect() {
 *     return { client: this.client, owned: false };
 *   }
 *
 *   protected async checkServer() {}
 * }
 * ```
 */
export abstract class SqlBackend extends BuiltInSqlBackend {
  abstract override readonly name: string;
  /** What differs in this database. */
  protected abstract readonly dialect: SqlDialect;

  readonly #client: WrappedClient;

  /**
   * @param table - the name of the runs table, 1 to 48 of `a-z 0-9 _`; the others are named after it
   */
  constructor(table: string) {
    // Nothing of the subclass is there yet: its fields are set after this constructor.
    super(lazily(() => this.#open(table)));
    this.#client = new WrappedClient(new.target.name || 'SqlBackend', {
      connect: () => this.connect(),
      checkServer: () => this.checkServer(),
      dialect: () => this.dialect,
    });
  }

  /** Opens a connection; `owned`: whether the backend closes it when the last scheduler stops. */
  protected abstract connect(): Promise<{ client: SqlClient; owned: boolean }>;

  /** Refuses a server that cannot keep the promise, by throwing. */
  protected abstract checkServer(): Promise<void>;

  #open(table: string): NativeBackend {
    const { bigint, nowMs, forUpdate } = this.dialect;
    const extraTables = this.dialect.extraTables(table);
    const dialect = { bigint, nowMs, forUpdate, extraTables };
    return this.#client.open({ name: this.name, table, dialect });
  }
}
