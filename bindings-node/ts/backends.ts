/** Which class stands for a backend that was opened by its URL. */

import { adopt } from './builtin';
import type { Backend } from './contract';
import { MemoryBackend } from './memory';
import { MySqlBackend } from './mysql';
import type { NativeBackend } from './native';
import { NatsBackend } from './nats';
import { PostgresBackend } from './postgres';
import { RabbitMqBackend } from './rabbitmq';
import { RedisBackend } from './redis';
import { SqliteBackend } from './sqlite';

/** One line per store. */
const CLASSES: Record<string, () => Backend> = {
  memory: () => new MemoryBackend(),
  sqlite: () => new SqliteBackend('anarchon.db'),
  postgres: () => new PostgresBackend('postgres://'),
  mysql: () => new MySqlBackend('mysql://localhost/anarchon'),
  rabbitmq: () => new RabbitMqBackend('amqp://localhost'),
  redis: () => new RedisBackend('redis://'),
  nats: () => new NatsBackend('nats://'),
};

/** The object of a backend that was opened by its URL. */
export function fromEngine(engine: NativeBackend): Backend {
  const make = CLASSES[engine.backendName()];
  if (make === undefined) throw new Error(`there is no class for ${engine.backendName()}`);
  return adopt(engine, make);
}
