import { loadNativeAddon } from '../shared/native-addon.js';

/** Native monitor of this thread's event loop; see native/event_loop.h for the layout of what `read` returns. */
interface EventLoopMonitor {
  read(): Float64Array;
}

const HEAD = 4;
const BUCKET_FIELDS = 3;

/** Delays of events in a period, in seconds. */
export interface LoopDelays {
  /** Longest turn of the loop: no event waited longer. */
  readonly max: number;
  readonly mean: number;
  readonly stddev: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/**
 * Delay of the event loop for an event that is due at any moment. A turn that keeps the loop busy for b seconds delays
 * such an event by anything from 0 to b; while the loop waits, the delay is 0. No timer measures this, because each of its
 * samples would wake the process and could see no delay shorter than its own interval.
 */
export class EventLoopDelay {
  private readonly monitor: EventLoopMonitor;

  constructor(monitor?: EventLoopMonitor) {
    this.monitor =
      monitor ?? new (loadNativeAddon<{ readonly EventLoopMonitor: new () => EventLoopMonitor }>().EventLoopMonitor)();
  }

  /** Delays since the last call. */
  read(): LoopDelays {
    return delaysOf(this.monitor.read());
  }
}

/** @param values as native/event_loop.h lays them out */
export function delaysOf(values: Float64Array): LoopDelays {
  const [seconds = 0, max = 0, squares = 0, cubes = 0] = values;
  if (seconds <= 0) return { max, mean: 0, stddev: 0, p50: 0, p90: 0, p99: 0 };
  const mean = squares / 2 / seconds;
  const stddev = Math.sqrt(Math.max(0, cubes / 3 / seconds - mean * mean));
  // From the longest turns down: the time at which a due event waits for more than a bucket's lower bound.
  const exceeding: (readonly [bound: number, share: number])[] = [];
  let turns = 0;
  let busy = 0;
  for (let at = values.length - BUCKET_FIELDS; at >= HEAD; at -= BUCKET_FIELDS) {
    turns += values[at + 1]!;
    busy += values[at + 2]!;
    exceeding.unshift([values[at]!, (busy - turns * values[at]!) / seconds]);
  }
  const percentile = (share: number): number =>
    Math.min(max, exceeding.find(([, above]) => above <= 1 - share)?.[0] ?? max);
  return { max, mean, stddev, p50: percentile(0.5), p90: percentile(0.9), p99: percentile(0.99) };
}
