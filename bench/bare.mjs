// What the lateness of a replica is compared with: a bare timer of croner, and what takes a slot by
// hand: SET NX on Redis, two commits on PostgreSQL.
//
// usage: node bare.mjs CONFIG_JSON
//
// Three of these share the slots as three replicas do. Each fires every second and notes when
// (`store` is "timer"); in one second it asks Redis by one SET NX, in the next PostgreSQL by one
// INSERT. Who won notes when it knew ("redis"), on PostgreSQL after a second commit ("postgres").
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cron } from 'croner';
import postgres from 'postgres';

const config = JSON.parse(process.argv[2]);
const lines = [];
const now = () => performance.timeOrigin + performance.now();

const { hostname, port } = new URL(config.redis);
const socket = connect({ host: hostname, port: Number(port || 6379), noDelay: true });
const waiting = [];
socket.on('data', (data) => {
  // One reply a line: +OK, or $-1 where the key was there.
  for (const reply of data.toString().split('\r\n').slice(0, -1)) waiting.shift()(reply);
});
const ask = (...words) =>
  new Promise((resolve) => {
    waiting.push(resolve);
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    socket.write(`*${words.length}\r\n${parts.join('')}`);
  });

const sql = postgres(config.postgres, { max: 1, onnotice: () => {} });
// A table that the stores' part of the benchmark makes and removes too.
await sql`CREATE TABLE IF NOT EXISTS bare_claims (job TEXT NOT NULL, slot BIGINT NOT NULL,
  token TEXT NOT NULL, held_by TEXT NOT NULL, PRIMARY KEY (job, slot))`.catch((error) => {
  // Of several that create it at once one wins.
  if (error.code !== '23505') throw error;
});

const note = (store, slot, at) => lines.push(JSON.stringify({ language: 'node', store, slot, at }));
const fires = (fired) => {
  const slot = Math.round(fired / 1000) * 1000;
  note('timer', slot, fired);
  return slot;
};

const ofRedis = new Cron('*/2 * * * * *', async () => {
  const slot = fires(now());
  const reply = await ask('SET', `${config.name}:${slot}`, config.id, 'NX', 'PX', '60000');
  if (reply === '+OK') note('redis', slot, now());
});
const ofPostgres = new Cron('1-59/2 * * * * *', async () => {
  const slot = fires(now());
  const { count } = await sql`INSERT INTO bare_claims
    VALUES (${config.name}, ${slot}, ${config.id}, 'claimed') ON CONFLICT DO NOTHING`;
  if (count === 0) return;
  await sql`UPDATE bare_claims SET held_by = 'started' WHERE job = ${config.name} AND slot = ${slot}`;
  note('postgres', slot, now());
});
await sleep(Math.max(0, config.until - now()));
ofRedis.stop();
ofPostgres.stop();
socket.end();
await sql.end();
console.log(lines.join('\n'));
