import { StallTolerantClock } from '../../src/shared/stall-tolerant-clock.js';

const TICK_MS = 50;

/**
 * Time (ms) that something takes, in ticks of this process: while a busy machine does not let it run, none come. What waits in vain for
 * a time of its own takes as many ticks on a machine that is not; a machine that is does not make it look slow.
 */
export async function attendedMs(run: () => Promise<unknown>): Promise<number> {
  const clock = new StallTolerantClock(TICK_MS);
  const ticks = setInterval(() => clock.tick(), TICK_MS);
  const began = clock.nowMs;
  try {
    await run();
    return clock.nowMs - began;
  } finally {
    clearInterval(ticks);
  }
}
