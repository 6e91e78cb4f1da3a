/** The same objects for `import`: there is one instance of the package per thread. */
export * from './testing.js';
