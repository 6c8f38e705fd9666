// Gives the process that imports it, and those that it starts, a temporary folder that is removed when it ends. The name is that of a
// test run's folder: the next run removes the one of a process that was killed (test/support/run-folder.ts).
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const folder = mkdtempSync(path.join(os.tmpdir(), `rf-${process.pid}-`));
process.env.TMPDIR = folder;
process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
