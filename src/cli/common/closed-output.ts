/** Exit code that a shell reports for a program that wrote to a closed pipe: 128 and SIGPIPE. */
export const EXIT_OUTPUT_CLOSED = 141;

const closed = new AbortController();

/** Aborted when nobody reads stdout any more. */
export const outputClosed: AbortSignal = closed.signal;

/** A service outlives whoever reads what it writes; a command that only writes ends by {@link outputClosed}, without a word. */
export function watchOutput(): void {
  process.stdout.on('error', () => closed.abort());
  process.stderr.on('error', () => undefined);
}
