/** Where log lines go. */

import { show } from './encode';
import { AnarchonError } from './errors';

/** Takes log lines: a sentence, and the fields that it was made from. */
export interface Logger {
  /** Details that only matter when something is looked into. */
  debug(message: string, fields?: object): void;
  /** What normally happens. */
  info(message: string, fields?: object): void;
  /** What somebody should know. */
  warn(message: string, fields?: object): void;
  /** What went wrong. */
  error(message: string, fields?: object): void;
}

/** How important a line is. */
export type Level = keyof Logger;

const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error'];

const toConsole: Logger = {
  debug() {},
  info() {},
  warn: (message, fields) => print(console.warn, message, fields),
  error: (message, fields) => print(console.error, message, fields),
};

function print(write: (...parts: unknown[]) => void, message: string, fields?: object): void {
  // An error is shown with its stack; everything else is in the sentence already.
  const error = (fields as { error?: unknown } | undefined)?.error;
  if (error === undefined) write(`anarchon: ${message}`);
  else write(`anarchon: ${message}`, error);
}

/** The logger that a user chose. A logger that throws harms nothing. */
export function chooseLogger(given: Logger | false | undefined): Log {
  if (given === false) return () => {};
  const logger = given ?? toConsole;
  const missing = LEVELS.filter((level) => typeof logger?.[level] !== 'function');
  if (missing.length > 0) {
    throw new AnarchonError(
      'INVALID_OPTION',
      `logger is ${show(given)} without ${missing.join(', ')}; allowed is an object with the ` +
        'functions debug, info, warn and error, or false',
    );
  }
  return (level, message, fields) => {
    try {
      logger[level](message, fields);
    } catch {
      // There is nowhere left to say it.
    }
  };
}

/** Writes a line. */
export type Log = (level: Level, message: string, fields?: object) => void;
