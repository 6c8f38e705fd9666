const BAR_WIDTH = 24;
const REDRAW_MS = 200;
const LINE_MS = 10_000;

/** Tells of bytes on their way. */
export interface TransferProgress {
  /** @param bytes that are there of all files */
  at(bytes: number): void;
  end(): void;
}

/**
 * A bar with rate and time left where `output` is a terminal, else a line every ten seconds.
 *
 * @param output where it is written
 * @param total bytes of all files
 */
export function transferProgress(
  total: number,
  output: Pick<NodeJS.WriteStream, 'write' | 'isTTY'> = process.stderr,
  now: () => number = () => performance.now(),
): TransferProgress {
  const began = now();
  let first: number | undefined;
  let latest = 0;
  let shownAt = output.isTTY ? Number.NEGATIVE_INFINITY : began;
  const text = (): string => {
    const seconds = (now() - began) / 1000;
    const rate = seconds > 0 ? (latest - (first ?? 0)) / seconds : 0;
    const share = total === 0 ? 1 : latest / total;
    const left = rate > 0 ? `, ${duration((total - latest) / rate)} left` : '';
    const filled = '#'.repeat(Math.round(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
    const bar = output.isTTY ? `[${filled}] ` : '';
    const size = `${(latest / 1e6).toFixed(0)} of ${(total / 1e6).toFixed(0)} MB`;
    return `pulling ${bar}${Math.floor(100 * share)} % ${size}, ${(rate / 1e6).toFixed(1)} MB/s${left}`;
  };
  const show = (): void => {
    shownAt = now();
    // A terminal's line is written over, and what was longer is cleared.
    output.write(output.isTTY ? `\r${text()}\x1b[K` : `${text()}\n`);
  };
  return {
    at: (bytes) => {
      // Bytes that lay here before were not transferred.
      first ??= bytes;
      latest = bytes;
      if (now() - shownAt >= (output.isTTY ? REDRAW_MS : LINE_MS)) show();
    },
    end: () => {
      if (!output.isTTY) return;
      show();
      output.write('\n');
    },
  };
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
