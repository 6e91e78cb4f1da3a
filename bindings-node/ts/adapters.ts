/** Clients for SQL backends, made of drivers that your program has. */

import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { SqlClient, SqlQueryable } from './sql';

/** A prepared statement of better-sqlite3 or of `node:sqlite`. */
interface SqliteStatement {
  /** better-sqlite3: whether it has rows. */
  readonly reader?: boolean;
  all(...params: never[]): unknown[];
  run(...params: never[]): unknown;
}

/** A database of better-sqlite3, or a `DatabaseSync` of `node:sqlite`. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
  /** better-sqlite3: the file. */
  readonly name?: string;
  /** better-sqlite3: whether there is no file. */
  readonly memory?: boolean;
  /** `node:sqlite`: the file; `null` if there is none. */
  location?(): string | null;
}

/** Statements kept prepared per database. */
const KEPT = 200;

/**
 * A client of a synchronous SQLite driver: better-sqlite3, or `node:sqlite` where Node.js has it.
 * Calls take turns, since the driver has one connection, and so do the connections of one thread to
 * one file: one that waited for the other would keep the thread from letting the other go on. Every statement blocks the event loop for as
 * long as it takes; a program that blocks its loop for longer can lose a lease.
 *
 * @param database - an open database; closed only by a backend that says it owns the client
 *
 * @example
 * ```ts
 * import { fromSqliteDatabase, type SqliteDatabase, SqliteBackend } from 'anarchon';
 *
 * export const onDatabase = (database: SqliteDatabase) =>
 *   new SqliteBackend({ database: fromSqliteDatabase(database) });
 * ```
 */
export function fromSqliteDatabase(database: SqliteDatabase): SqlClient {
  const statements = new Map<string, SqliteStatement>();
  const prepared = (sql: string): SqliteStatement => {
    const found = statements.get(sql);
    if (found !== undefined) return found;
    if (statements.size >= KEPT) statements.clear();
    const statement = database.prepare(sql);
    statements.set(sql, statement);
    return statement;
  };
  const all = (sql: string, params: unknown[]): object[] => {
    // As 64-bit integers: a plain number would be bound as a floating-point one.
    const bound = params.map((param) =>
      Number.isInteger(param) ? BigInt(param as number) : param,
    );
    const statement = prepared(sql);
    if (statement.reader !== false) return statement.all(...(bound as never[])) as object[];
    statement.run(...(bound as never[]));
    return [];
  };
  const tx: SqlQueryable = { all: async (sql, params) => all(sql, params) };
  const turn = turnsOf(database);
  return {
    all: (sql, params) => turn(async () => all(sql, params)),
    transaction: (fn) =>
      turn(async () => {
        database.exec('BEGIN IMMEDIATE');
        try {
          await fn(tx);
          database.exec('COMMIT');
        } catch (error) {
          rollBack(() => database.exec('ROLLBACK'));
          throw error;
        }
      }),
    close: async () => {
      statements.clear();
      database.close();
    },
  };
}

/** What `query` of node-postgres resolves to. */
interface PgResult {
  rows: object[];
}

/** A connection of node-postgres. */
interface PgConnection {
  query(sql: string, params?: unknown[]): Promise<PgResult>;
}

/** A `Pool` of node-postgres (`pg`). */
export interface PgPool extends PgConnection {
  connect(): Promise<PgConnection & { release(error?: boolean): void }>;
  end(): Promise<void>;
}

/**
 * A client of a node-postgres pool.
 *
 * @param pool - a `Pool`; ended only by a backend that says it owns the client
 *
 * @example
 * ```ts
 * import { fromPg, type PgPool, type SqlClient } from 'anarchon';
 *
 * export const client = (pool: PgPool): SqlClient => fromPg(pool);
 * ```
 */
export function fromPg(pool: PgPool): SqlClient {
  const on = (connection: PgConnection): SqlQueryable => ({
    all: async (sql, params) => (await connection.query(sql, params)).rows,
  });
  return {
    ...on(pool),
    transaction: async (fn) => {
      const connection = await pool.connect();
      let broken = false;
      try {
        await connection.query('BEGIN');
        await fn(on(connection));
        await connection.query('COMMIT');
      } catch (error) {
        // A connection whose transaction cannot be ended is not given to the next one.
        await connection.query('ROLLBACK').catch(() => {
          broken = true;
        });
        throw error;
      } finally {
        connection.release(broken);
      }
    },
    close: () => pool.end(),
  };
}

/** What takes statements in Postgres.js: the client, or a transaction. */
interface PostgresJsQueryable {
  unsafe(sql: string, params?: never[]): PromiseLike<readonly object[]>;
}

/** The client of Postgres.js (`postgres`). */
export interface PostgresJsClient extends PostgresJsQueryable {
  begin(fn: (tx: PostgresJsQueryable) => Promise<void>): Promise<unknown>;
  end(): Promise<void>;
}

/**
 * A client of Postgres.js.
 *
 * @param sql - what `postgres(…)` returned; ended only by a backend that says it owns the client
 *
 * @example
 * ```ts
 * import { fromPostgresJs, type PostgresJsClient, type SqlClient } from 'anarchon';
 *
 * export const client = (sql: PostgresJsClient): SqlClient => fromPostgresJs(sql);
 * ```
 */
export function fromPostgresJs(sql: PostgresJsClient): SqlClient {
  const on = (queryable: PostgresJsQueryable): SqlQueryable => ({
    all: async (text, params) => [...(await queryable.unsafe(text, params as never[]))],
  });
  return {
    ...on(sql),
    transaction: (fn) => sql.begin((tx) => fn(on(tx))),
    close: () => sql.end(),
  };
}

/** A connection of the promise interface of mysql2. */
interface Mysql2Connection {
  /** Resolves with the rows, or with what a change says of itself, and something else. */
  query(sql: string, params?: unknown[]): Promise<[unknown, unknown]>;
}

/** A pool of the promise interface of mysql2 (`mysql2/promise`). */
export interface Mysql2Pool extends Mysql2Connection {
  getConnection(): Promise<Mysql2Connection & { release(): void; destroy(): void }>;
  end(): Promise<void>;
}

/**
 * A client of a mysql2 pool, for MySQL and MariaDB.
 *
 * @param pool - what `createPool(…)` of `mysql2/promise` returned; ended only by a backend that says
 *   it owns the client
 *
 * @example
 * ```ts
 * import { fromMysql2, MySqlBackend, type Mysql2Pool } from 'anarchon';
 *
 * export const onPool = (pool: Mysql2Pool) => new MySqlBackend({ database: fromMysql2(pool) });
 * ```
 */
export function fromMysql2(pool: Mysql2Pool): SqlClient {
  const on = (connection: Mysql2Connection): SqlQueryable => ({
    all: async (sql, params) => {
      const [rows] = await connection.query(sql, params);
      return Array.isArray(rows) ? rows : [];
    },
  });
  return {
    ...on(pool),
    transaction: async (fn) => {
      const connection = await pool.getConnection();
      try {
        await connection.query('BEGIN');
        await fn(on(connection));
        await connection.query('COMMIT');
        connection.release();
      } catch (error) {
        // A connection whose transaction cannot be ended is not given to the next one.
        await connection.query('ROLLBACK').then(
          () => connection.release(),
          () => connection.destroy(),
        );
        throw error;
      }
    },
    close: () => pool.end(),
  };
}

type Turn = <T>(work: () => Promise<T>) => Promise<T>;

/** The turns of every file that this thread has open. */
const files = new Map<string, Turn>();

/** The turns that a database takes: with all others of this thread on the same file. */
function turnsOf(database: SqliteDatabase): Turn {
  const file = database.location?.() ?? (database.memory === false ? database.name : undefined);
  if (typeof file !== 'string' || file === '') return turns();
  const path = realPath(file);
  const found = files.get(path) ?? turns();
  files.set(path, found);
  return found;
}

/** A file by its one name, whatever links lead to it. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return resolve(file);
  }
}

/** Lets what is asked run one after the other, whatever becomes of each. */
function turns(): Turn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  };
}

/** The error that led here is the one that counts. */
function rollBack(call: () => unknown): void {
  try {
    call();
  } catch {
    // The driver has rolled back by itself.
  }
}
