import type { NativeLink, NativeStep, NativeTransfer } from '../device/addon.js';
import type { DeviceBuffer } from '../device/device.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import type { PlanParts } from '../layers/recorded-model.js';
import { COUNT_DRAWS, COUNT_TOKENS } from '../model/step-counts.js';
import { OUTPUT_HEADER } from '../model/step-tables.js';
import {
  bytesOf,
  firstFailure,
  type ModelDevices,
  type Pass,
  type PassEnd,
  type SamplingPass,
  type Stage,
  slotWrites,
} from './model-devices.js';

/** Buffers between the stages of a split model. */
export interface StageLinks {
  /** From each stage to the next: the residual stream. */
  readonly residuals: readonly NativeLink[];
  /** From the last stage to the first: the tokens that slots sampled last. */
  readonly tokens: NativeLink;
}

/**
 * The stages of a model, one behind the other: each computes rows while the ones before it go on with the next. The residual
 * stream crosses from each to the next, and the tokens that were sampled go back to the first, without the host.
 */
export class Pipeline implements ModelDevices {
  /** Messages so far: of each link between stages, and of the one that goes back. */
  private passed = 0;
  private told = 0;
  /** Which message brings what a slot sampled last. */
  private readonly toldOf = new Map<number, number>();

  constructor(
    readonly stages: readonly Stage[],
    /** Undefined where there is one stage. */
    private readonly links: StageLinks | undefined,
  ) {}

  get depth(): number {
    return this.stages.length;
  }

  get last(): Stage {
    return this.stages.at(-1) as Stage;
  }

  async run(pass: Pass): Promise<PassEnd> {
    const { stages, links } = this;
    const rows = pass.counts[COUNT_TOKENS] as number;
    const crosses = links !== undefined && rows > 0;
    const message = crosses ? this.passed++ : 0;
    const awaited = crosses ? this.messageOf(pass.awaited) : undefined;
    const tells = crosses && pass.isSampled && (pass.counts[COUNT_DRAWS] as number) > 0;
    if (tells) this.tellsOf(pass.sampling);
    const { step, counts, recurring, input } = pass;
    const running = stages.map(({ device, forward, plan, planParts }, i) => {
      const isLast = i === stages.length - 1;
      const { tables, x } = forward;
      const residual = { address: x.address, bytes: 4 * rows * forward.model.hiddenSize };
      // Stages before the last return the header alone: activations beyond a range are counted everywhere.
      const words = isLast ? pass.answerWords : Math.min(pass.answerWords, OUTPUT_HEADER);
      const answer = isLast ? pass.answer : pass.answer.subarray(headerOf(pass, i));
      const own: NativeStep = {
        plan: isLast && !pass.isSampled ? (planParts as PlanParts).forward : plan,
        step,
        counts,
        recurring,
        input: new Uint8Array(input.buffer, input.byteOffset, input.byteLength),
        deviceInput: tables.device.address,
        deviceOutput: tables.answer.address,
        output: bytesOf(answer, words),
        begins: i === 0 && pass.isFirst,
        ends: isLast && pass.isLast,
      };
      if (!crosses) return device.native.run(own);
      return device.native.run({
        ...own,
        receives:
          i > 0
            ? this.residual(i - 1, residual, message)
            : awaited === undefined
              ? undefined
              : this.tokens(forward, awaited),
        sends: isLast ? (tells ? this.tokens(forward) : undefined) : this.residual(i, residual),
      });
    });
    return { stageUs: await firstFailure(running) };
  }

  async sample({ step, counts, answer, answerWords, sampling, masks }: SamplingPass): Promise<number> {
    const { device, forward, planParts } = this.last;
    const tells = this.links !== undefined && (counts[COUNT_DRAWS] as number) > 0;
    if (tells) this.tellsOf(sampling);
    return device.native.run({
      ...{ step, counts, recurring: false, joins: true, begins: false },
      plan: (planParts as PlanParts).sampling,
      input: masks,
      deviceInput: forward.masks.device.address,
      output: bytesOf(answer, answerWords),
      deviceOutput: forward.tables.answer.address,
      sends: tells ? this.tokens(forward) : undefined,
    });
  }

  async write(input: Int32Array, counts: Int32Array): Promise<number> {
    const running = this.stages.map((stage) => stage.device.native.run(slotWrites(stage, input, counts)));
    return (await firstFailure(running)).reduce((sum, us) => sum + us, 0);
  }

  private residual(link: number, between: Omit<NativeTransfer, 'link'>, message?: number): NativeTransfer {
    return { link: (this.links as StageLinks).residuals[link] as NativeLink, ...between, ...numbered(message) };
  }

  private tokens(forward: ForwardPass, message?: number): NativeTransfer {
    const { address, elements } = forward.lastTokens as DeviceBuffer;
    return { link: (this.links as StageLinks).tokens, address, bytes: 4 * elements, ...numbered(message) };
  }

  private messageOf(slots: Iterable<number>): number | undefined {
    let latest: number | undefined;
    for (const slot of slots) latest = Math.max(latest ?? 0, this.toldOf.get(slot) ?? 0);
    return latest;
  }

  private tellsOf(slots: Iterable<number>): void {
    for (const slot of slots) this.toldOf.set(slot, this.told);
    this.told += 1;
  }
}

const numbered = (message: number | undefined) => (message === undefined ? {} : { message });

/** Offset of the answers of stages before the last, behind the last one's. */
export const headerOf = ({ answer }: Pick<Pass, 'answer'>, stage: number): number =>
  answer.length - (1 + stage) * OUTPUT_HEADER;
