import { asRocmForgeError } from '../../shared/errors.js';
import type { Device } from '../device/device.js';
import { countsOf, type GraphBucket, type GraphBuckets } from './graph-buckets.js';

/** A plan and the device that runs it. */
interface PlanOnDevice {
  readonly device: Pick<Device, 'native'>;
  readonly plan: number;
}

/**
 * Graphs of the steps that recur, one a bucket and stage; a step whose graph is not there yet can be launched without it. The first
 * load captures all of them, so that the memory that they take is known. An executor that takes over what another has loaded knows
 * it, and streams wait: on one device it captures a graph when a step needs it, and the others while nothing runs.
 */
export class StepGraphs {
  private readonly missing: Map<string, GraphBucket>;

  constructor(
    private readonly stages: readonly PlanOnDevice[],
    readonly buckets: GraphBuckets,
  ) {
    this.missing = new Map(buckets.all().map((bucket) => [keyOf(bucket), bucket]));
  }

  /** True if every bucket has its graph. */
  get isComplete(): boolean {
    return this.missing.size === 0;
  }

  /**
   * Captures the graphs of all buckets.
   *
   * @returns milliseconds
   * @throws RocmForgeError `OUT_OF_MEMORY`, or an error of the device
   */
  captureAll(): number {
    const began = performance.now();
    for (const bucket of this.missing.values()) this.capture(bucket);
    return performance.now() - began;
  }

  /**
   * Captures the graph of a bucket if it is missing. Without memory for it, its steps are launched without one.
   *
   * @throws RocmForgeError an error of the device
   */
  require(bucket: GraphBucket): void {
    if (this.isComplete || !this.missing.has(keyOf(bucket))) return;
    try {
      this.capture(bucket);
    } catch (error) {
      if (asRocmForgeError(error).reason !== 'OUT_OF_MEMORY') throw error;
      this.missing.delete(keyOf(bucket));
    }
  }

  /**
   * Captures the graph of one bucket of those that have none.
   *
   * @throws RocmForgeError as {@link require}
   */
  captureNext(): void {
    const [next] = this.missing.values();
    if (next !== undefined) this.require(next);
  }

  private capture(bucket: GraphBucket): void {
    const counts = countsOf(bucket);
    for (const { device, plan } of this.stages) device.native.capture(plan, counts);
    this.missing.delete(keyOf(bucket));
  }
}

const keyOf = ({ rows, splits, mode }: GraphBucket): string => `${rows} ${splits} ${mode}`;
