#!/usr/bin/env node
import { cachedCodeOf, ProgramScript } from './program-script.js';

// With fewer, Node's loader of modules fails, and a stack trace is all it says.
const FEWEST_FILES = 128;

try {
  await new ProgramScript(cachedCodeOf(process.argv[2])).run();
} catch (error) {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'EMFILE' && code !== 'ENFILE') throw error;
  process.stderr.write(
    `rocmforge: SYSTEM_LIMIT: this process may open too few files to load its program; raise the limit of open files to ` +
      `${FEWEST_FILES} or more (ulimit -n, LimitNOFILE of a systemd unit)\n`,
  );
  process.exit(1);
}
