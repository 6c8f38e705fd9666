import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import type { RocmForgeError } from '../../shared/errors.js';
import { writeError } from '../../shared/write-error.js';
import { writeNotice } from './output.js';

/** Exit code that a shell reports for a program that wrote to a closed pipe: 128 and SIGPIPE. */
export const EXIT_OUTPUT_CLOSED = 141;
const EXIT_OUTPUT_FAILED = 1;

const closed = new AbortController();
let isService = false;
let failure: RocmForgeError | undefined;

/** Aborted when the reader of stdout is gone, or when it cannot be written. */
export const outputClosed: AbortSignal = closed.signal;

/** Lets this process run on with its own exit code when stdout cannot be written: a full log disk must not end a gateway. */
export function outliveOutput(): void {
  isService = true;
}

/**
 * A service outlives the reader of its output; a command that only writes ends by {@link outputClosed}: without a word if a pipe was
 * closed, otherwise with an error on stderr and exit code 1.
 */
export function watchOutput(): void {
  const stdout: Writable & { readonly fd: number } = process.stdout;
  if (!(stdout instanceof Socket)) {
    // A disk that fills up takes a part of the bytes without an error, and Node's stream for files drops the others.
    stdout._write = (bytes: Buffer, _encoding, done) => {
      try {
        for (let written = 0; written < bytes.length; ) written += writeSync(stdout.fd, bytes, written);
      } catch (error) {
        done(error as Error);
        return;
      }
      done();
    };
  }
  stdout.on('error', (error) => {
    reportFailure(error);
    closed.abort();
  });
  process.stderr.on('error', () => undefined);
  process.on('exit', () => {
    // `--help` exits before the stream emits its error.
    if (stdout.errored) reportFailure(stdout.errored);
    if (failure !== undefined && !isService) process.exitCode ||= EXIT_OUTPUT_FAILED;
  });
}

/** Reports the first error of stdout that is not a closed pipe. */
function reportFailure(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || failure !== undefined) return;
  failure = writeError('stdout', error);
  if (!isService) process.exitCode ||= EXIT_OUTPUT_FAILED;
  writeNotice(`rocmforge: ${failure.reason}: ${failure.message}\n`);
}
