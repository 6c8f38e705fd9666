const BAR_WIDTH = 30;

/** Draws how far a load is on stderr, where that is a terminal; else undefined. */
export function loadProgress(): ((doneBytes: number, totalBytes: number) => void) | undefined {
  if (!process.stderr.isTTY) return undefined;
  let lastPercent = -1;
  return (done, total) => {
    const percent = total === 0 ? 100 : Math.floor((100 * done) / total);
    if (percent === lastPercent) return;
    lastPercent = percent;
    const filled = Math.round((percent / 100) * BAR_WIDTH);
    const megabytes = `${(done / 1e6).toFixed(0)} of ${(total / 1e6).toFixed(0)} MB`;
    process.stderr.write(
      `\rloading [${'#'.repeat(filled)}${' '.repeat(BAR_WIDTH - filled)}] ${percent} % ${megabytes}`,
    );
    if (percent === 100) process.stderr.write('\n');
  };
}
