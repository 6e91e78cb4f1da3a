// Programs that are run in a process of their own, to see how they end.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));

/** A folder that is removed when the test is over. */
export function folder(t) {
  // Inside the checkout, so that `import 'anarchon'` means its package.
  const path = mkdtempSync(join(HERE, '.tmp-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Starts a program; `ended` resolves with how it ended and what it printed. */
export function start(t, code, { extension = 'mjs', env = {} } = {}) {
  const cwd = folder(t);
  const file = join(cwd, `program.${extension}`);
  writeFileSync(file, code);
  const { ANARCHON_URL: _url, ANARCHON_NAMESPACE: _namespace, ...inherited } = process.env;
  const child = spawn(process.execPath, [file], { cwd, env: { ...inherited, ...env } });
  let stdout = '';
  let stderr = '';
  const waiting = [];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
    for (const check of waiting) check();
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  t.after(() => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => {
    child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }));
  });
  /** Resolves once the program has printed `text`. */
  const printed = (text) =>
    Promise.race([
      new Promise((resolve) => {
        const check = () => stdout.includes(text) && resolve();
        waiting.push(check);
        check();
      }),
      ended.then(() => {
        if (!stdout.includes(text)) throw new Error(`ended without printing ${text}:\n${stderr}`);
      }),
    ]);
  return { child, cwd, ended, printed };
}

/** Runs a program to its end. */
export function play(t, code, options) {
  return start(t, code, options).ended;
}
