// What the lateness of a replica is compared with: a bare timer of croner, and SET NX on Redis.
//
// usage: node bare.mjs CONFIG_JSON
//
// Three of these share the slots as three replicas do. Each fires every second, asks Redis by one
// SET NX, and notes when the timer fired (`store` is "timer") and, if it won, when it knew ("redis").
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cron } from 'croner';

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

const note = (store, slot, at) => lines.push(JSON.stringify({ language: 'node', store, slot, at }));

const timer = new Cron('* * * * * *', async () => {
  const fired = now();
  const slot = Math.round(fired / 1000) * 1000;
  const reply = await ask('SET', `${config.prefix}:${slot}`, config.id, 'NX', 'PX', '60000');
  const known = now();
  note('timer', slot, fired);
  if (reply === '+OK') note('redis', slot, known);
});
await sleep(Math.max(0, config.until - now()));
timer.stop();
socket.end();
console.log(lines.join('\n'));
