import { expect, it } from 'vitest';
import { StallTolerantClock } from '../../src/shared/stall-tolerant-clock.js';
import { StepDeadline } from '../../src/shared/step-deadline.js';
import { StepWatch } from '../../src/shared/step-watch.js';

/** A clock of 50 ms ticks in a world whose time the test makes. */
function world() {
  let now = 1000;
  const clock = new StallTolerantClock(50, () => now);
  return {
    clock,
    /** The process runs for so long. */
    run: (ms: number) => {
      for (let left = ms; left > 0; left -= 50) {
        now += Math.min(50, left);
        clock.tick();
      }
    },
    /** It does not. */
    stall: (ms: number) => {
      now += ms;
    },
  };
}

it('goes with the time while the process runs', () => {
  const { clock, run } = world();
  run(500);
  expect(clock.nowMs).toBe(500);
});

it('stands still while it does not, whoever looks first afterwards', () => {
  const { clock, run, stall } = world();
  run(500);
  stall(4000);
  expect(clock.nowMs).toBe(600);
  clock.tick();
  expect(clock.nowMs).toBe(600);
  run(100);
  expect(clock.nowMs).toBe(700);
});

it('so a stall makes no step overdue, and is nobody’s deadline', () => {
  const { clock, run, stall } = world();
  const deadline = new StepDeadline();
  const watch = new StepWatch(deadline, clock);
  for (let step = 0; step < 40; step++) {
    watch.begin(1);
    run(10);
    if (step === 20) stall(3000);
    watch.end();
  }
  watch.begin(1);
  stall(6000);
  expect(watch.overdueMs(2000)).toBeUndefined();
  // 20 × what the slowest took, and of the stall it took the 100 ms that cannot be told from work.
  expect(deadline.deadlineMs(1)).toBeLessThanOrEqual(20 * 110);
  run(2300);
  expect(watch.overdueMs(2000)).toBeGreaterThan(2000);
});
