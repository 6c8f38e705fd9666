#!/usr/bin/env node
// Imports nothing: where few files may be open, Node's loader of modules fails, and a stack trace is all it says.
const FEWEST_FILES = 128;
/** program.ts and its 300 modules in fewer files (tools/finish-dist.mjs), which load sooner. */
const PROGRAM = '../bundle/program.js';

try {
  await import(PROGRAM);
} catch (error) {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'EMFILE' && code !== 'ENFILE') throw error;
  process.stderr.write(
    `rocmforge: SYSTEM_LIMIT: this process may open too few files to load its program; raise the limit of open files to ` +
      `${FEWEST_FILES} or more (ulimit -n, LimitNOFILE of a systemd unit)\n`,
  );
  process.exit(1);
}

export {};
