import { createHash } from 'node:crypto';
import type { Device } from '../../executor/device/device.js';
import type { DeviceStats } from '../../executor/device/device-stats.js';
import { ATTENTION_SPLIT } from '../../executor/kernels/index.js';
import type { LoadOptions } from '../../executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../executor/load/loaded-model.js';
import { type DeviceOptions, openDevice } from '../../executor/load/open-device.js';
import { blocksFor } from '../../executor/model/slot-layout.js';
import {
  COUNT_SAMPLES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  STEP_COUNTS,
  settle,
} from '../../executor/model/step-counts.js';
import { StepRunner } from '../../executor/steps/step-runner.js';
import { ExecuteRequest, Slice, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';
import { requireDecoder } from '../common/decoder.js';
import { WindowedBlocks } from '../common/windowed-blocks.js';
import { readBandwidth } from './read-bandwidth.js';

/** One measured generation: milliseconds of the prompt's step and of each step of one token. */
export interface LoopRun {
  readonly prefillMs: number;
  readonly tokenMs: readonly number[];
}

type LoopLoad = Pick<LoadOptions, 'attention' | 'kvCacheType' | 'cpuExperts' | 'deviceMemoryBytes'> &
  Partial<Pick<LoadOptions, 'maxStepTokens'>>;

/** The executor without a gateway: one sequence, a step at a time, in this process. */
export class ExecutorLoop {
  private readonly runner: StepRunner;
  private stepId = 0n;
  private readonly windowed: WindowedBlocks;

  /** @param sampling default: greedy */
  constructor(
    private readonly device: Device,
    readonly model: LoadedModel,
    private readonly sampling = NEUTRAL_SAMPLING,
  ) {
    requireDecoder(model.forward.limits);
    this.runner = new StepRunner(device, model, 1n);
    this.windowed = new WindowedBlocks(model.forward.limits.windowed);
  }

  /**
   * @param tokens positions the one sequence may have
   * @param options `maxStepTokens`: default: a prompt is one step
   */
  static async open(
    path: string,
    tokens: number,
    { kind, gpu, threads, kernels, maxStepTokens = tokens, ...load }: DeviceOptions & LoopLoad,
  ): Promise<ExecutorLoop> {
    const device = openDevice({ kind, gpu, threads, kernels });
    const limits = { maxContext: tokens, maxSequences: 1, maxStepTokens, kvMemoryBytes: 0, stateSnapshots: 0 };
    const options = { path, ...limits, ...load, fingerprint: '' };
    return new ExecutorLoop(device, await loadModel(device, options, () => undefined));
  }

  /** Bytes of weights that a token's step reads. */
  get weightBytes(): number {
    return this.model.weights.bytesReadPerToken;
  }

  /** Device of the run. */
  get description(): string {
    return this.device.description;
  }

  /** Sensor values of the device now. */
  stats(): DeviceStats {
    return this.device.stats();
  }

  /**
   * Runs a prompt, then `count` tokens one after the other, each as the device sampled it. Two steps are under way at a
   * time, as a gateway has it.
   */
  async run(prompt: readonly number[], count: number): Promise<LoopRun> {
    const started = performance.now();
    await this.begin(prompt);
    const prefillMs = performance.now() - started;
    const tokenMs: number[] = [];
    const decode = (i: number) => this.step(sliceOf(prompt.length + i, 1));
    let last = performance.now();
    let next = decode(0);
    for (let i = 1; i <= count; i++) {
      const current = next;
      if (i < count) next = decode(i);
      await current;
      const now = performance.now();
      tokenMs.push(now - last);
      last = now;
    }
    await this.step(undefined, { closes: [0] });
    this.windowed.close(0);
    return { prefillMs, tokenMs };
  }

  /** Opens the one sequence and runs its prompt, in as few steps as the load allows. */
  private async begin(prompt: readonly number[]): Promise<void> {
    const { maxContext, maxStepTokens } = this.model.forward.limits;
    const open = {
      ...SlotOpen.create(),
      slot: 0,
      tokenIds: Buffer.from(Uint32Array.from(prompt).buffer),
      promptTokens: prompt.length,
      blockIds: Buffer.from(Uint32Array.from({ length: blocksFor(maxContext) }, (_, i) => i + 1).buffer),
      sampling: encodeSampling(this.sampling),
    };
    this.windowed.open(0);
    let previous: Promise<void> | undefined;
    for (let at = 0; at < prompt.length; at += maxStepTokens) {
      const count = Math.min(maxStepTokens, prompt.length - at);
      const slice = { ...sliceOf(at, count), sample: at + count === prompt.length };
      const current = this.step(slice, at === 0 ? { opens: [open] } : {});
      await previous;
      previous = current;
    }
    await previous;
  }

  /** A hash of the last step's logits: the same model on the same device level always has the same. */
  logitsHash(): string {
    const { logits, model } = this.model.forward;
    const values = this.device.readF32(logits, model.vocabularySize);
    return createHash('sha256').update(values).digest('hex').slice(0, 16);
  }

  /** Bytes a second at which the device's threads read the weights and do nothing else. */
  readBandwidth(): Promise<number> {
    return readBandwidth(this.device, this.model.weights);
  }

  /**
   * Microseconds of each kernel in one step of one token after a prompt, run launch by launch: summed by name. What a
   * launch of nothing takes between two events is in each.
   */
  async profile(
    prompt: readonly number[],
  ): Promise<{ readonly kernel: string; readonly launches: number; readonly microseconds: number }[]> {
    const { forward, plan } = this.model;
    await this.begin(prompt);
    await this.step(sliceOf(prompt.length, 1));
    const counts = new Int32Array(STEP_COUNTS);
    counts[COUNT_TOKENS] = 1;
    counts[COUNT_SAMPLES] = 1;
    counts[this.device.isHost ? COUNT_TILES : COUNT_SPLIT_ROWS] = 1;
    counts[COUNT_SPLITS] = Math.ceil((prompt.length + 1) / ATTENTION_SPLIT);
    settle(counts);
    const times = this.device.native.timeLaunches(plan, counts);
    const byName = new Map<string, { kernel: string; launches: number; microseconds: number }>();
    for (const [i, kernel] of forward.kernels.entries()) {
      const entry = byName.get(kernel) ?? { kernel, launches: 0, microseconds: 0 };
      const microseconds = times[i] as number;
      byName.set(kernel, {
        kernel,
        launches: entry.launches + Number(microseconds > 0),
        microseconds: entry.microseconds + microseconds,
      });
    }
    return [...byName.values()].filter(({ launches }) => launches > 0).sort((a, b) => b.microseconds - a.microseconds);
  }

  private async step(slice: Slice | undefined, parts: Partial<ExecuteRequest> = {}): Promise<void> {
    this.stepId += 1n;
    const appends = slice && this.windowed.appends(slice.slot, slice.position, slice.count);
    await this.runner.submit({
      ...ExecuteRequest.create(),
      ...{ stepId: this.stepId, epoch: 1n, appends: appends ?? [], slices: slice === undefined ? [] : [slice] },
      ...parts,
    });
  }
}

/** The next `count` rows of the one sequence, the last of them sampled. */
const sliceOf = (position: number, count: number): Slice => ({
  ...Slice.create(),
  ...{ slot: 0, position, count, sample: true },
});
