/**
 * A job scheduler for applications that run in several instances. Every instance runs the same
 * scheduler; for one job and one slot exactly one of them wins and runs the handler.
 *
 * @packageDocumentation
 */

export {
  fromMysql2,
  fromPg,
  fromPostgresJs,
  fromSqliteDatabase,
  type Mysql2Pool,
  type PgPool,
  type PostgresJsClient,
  type SqliteDatabase,
} from './adapters';
export { BuiltInBackend, BuiltInSqlBackend, ClaimsBackend } from './builtin';
export type { JobContext } from './context';
export {
  type ActiveRun,
  type Backend,
  buildHistory,
  type CatchUp,
  type ClaimInput,
  type ClaimOutcome,
  type ClaimOutcomeKind,
  type ClaimRecord,
  type EndStatus,
  type JobLimits,
  type MissedRange,
  type MissedReason,
  type Overlap,
  type PauseRequest,
  type RunClaim,
  type RunError,
  type RunRecord,
  type RunStatus,
  type RunStore,
  type StoredResult,
  type Survey,
} from './contract';
export { AnarchonError, type ErrorCode } from './errors';
export type {
  DefinitionConflict,
  MissedSlots,
  OverdueInfo,
  OverlapInfo,
  RunInfo,
  SchedulerEvents,
  SkewInfo,
  Trigger,
} from './events';
export type { Logger } from './logger';
export { MemoryBackend, type MemoryBackendOptions } from './memory';
export { MySqlBackend, type MySqlBackendOptions, type MySqlDatabaseOptions } from './mysql';
export { NatsBackend, type NatsBackendOptions } from './nats';
export type { Duration, JobOptions, Retries, SchedulerOptions } from './options';
export {
  PostgresBackend,
  type PostgresBackendOptions,
  type PostgresDatabaseOptions,
} from './postgres';
export { RabbitMqBackend, type RabbitMqBackendOptions } from './rabbitmq';
export { RedisBackend, type RedisBackendOptions } from './redis';
export {
  type Explanation,
  type Handler,
  type HistoryOptions,
  type JobInfo,
  type MissedEntry,
  type RunNowOptions,
  type RunRef,
  Scheduler,
  type StartOptions,
  type StopReport,
} from './scheduler';
export type { SqlServerOptions } from './server';
export {
  SqlBackend,
  type SqlClient,
  type SqlDatabaseOptions,
  type SqlDialect,
  type SqlQueryable,
} from './sql';
export { SqliteBackend, type SqliteBackendOptions, type SqliteDatabaseOptions } from './sqlite';
