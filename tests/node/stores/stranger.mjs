// Databases described by their users: PostgreSQL, by whatever client, and SQLite.
import { SqlBackend } from 'anarchon';

/** What a program that has a client has to write. */
class Described extends SqlBackend {
  constructor(connect, table = 'stranger_runs') {
    super(table);
    this.table = table;
    this.open = connect;
  }

  async connect() {
    return this.open();
  }

  async checkServer() {}
}

export class PostgresStranger extends Described {
  name = 'stranger';
  dialect = {
    bigint: 'BIGINT',
    nowMs: 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)',
    forUpdate: 'FOR UPDATE',
    placeholders: (sql) => {
      let number = 0;
      return sql.replaceAll('?', () => `$${++number}`);
    },
    extraTables: (table) => [`CREATE TABLE IF NOT EXISTS ${table}_locks (job TEXT PRIMARY KEY)`],
    serialize: async (tx, job) => {
      await tx.all(`INSERT INTO ${this.table}_locks VALUES ($1) ON CONFLICT DO NOTHING`, [job]);
      await tx.all(`SELECT job FROM ${this.table}_locks WHERE job = $1 FOR UPDATE`, [job]);
    },
    isAlreadyCreated: (error) => error?.code === '42P07' || error?.code === '23505',
  };
}

export class SqliteStranger extends Described {
  name = 'embedded';
  dialect = {
    bigint: 'INTEGER',
    nowMs: `CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)`,
    forUpdate: '',
    placeholders: (sql) => sql,
    extraTables: () => [],
    serialize: async () => {},
    isAlreadyCreated: () => false,
  };
}
