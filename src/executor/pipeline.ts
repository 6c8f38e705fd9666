import type { NativeLink, NativeStep, NativeTransfer } from './device/addon.js';
import type { Device, DeviceBuffer } from './device/device.js';
import type { ForwardPass } from './layers/forward-pass.js';
import { COUNT_DRAWS, COUNT_TOKENS } from './model/step-counts.js';
import { OUTPUT_HEADER } from './model/step-tables.js';
import type { StageGraph } from './model/values.js';

/** A device, and the layers of a model that it computes; of a model that is not split, all. */
export interface Stage {
  readonly device: Device;
  readonly graph: StageGraph;
  readonly forward: ForwardPass;
  /** On its device; of the last one up to the sampled tokens. */
  readonly plan: number;
}

/** What lies between the stages of a split model. */
export interface StageLinks {
  /** From each stage to the next: the residual stream. */
  readonly residuals: readonly NativeLink[];
  /** From the last stage to the first: the tokens that slots sampled last. */
  readonly tokens: NativeLink;
}

/** Rows that go through all stages. */
export interface Pass {
  readonly plan?: number | undefined;
  /** The gateway's number of the step, for the fault record. */
  readonly step: number;
  readonly counts: Int32Array;
  readonly recurring: boolean;
  /** The step tables, as far as they are in use. */
  readonly input: Uint8Array;
  /** Where the answer goes. */
  readonly answer: Int32Array;
  readonly answerWords: number;
  /** Whether the rows' tokens are sampled; else somebody samples them later. */
  readonly isSampled: boolean;
  /** Slots whose latest token the rows need and the host does not know. */
  readonly awaited: Iterable<number>;
  /** Slots that sample. */
  readonly sampling: Iterable<number>;
  /** Whether the step ends with these rows. */
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** When a pass has ended. */
export interface PassEnd {
  /** Of each stage, without what it waited for others. */
  readonly stageUs: readonly number[];
}

const NO_BYTES = new Uint8Array(0);

/**
 * The stages of a model, one behind the other: each computes rows while the ones before it go on with the next. The residual
 * stream crosses from each to the next, and the tokens that were sampled go back to the first, without the host.
 */
export class Pipeline {
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

  get last(): Stage {
    return this.stages.at(-1) as Stage;
  }

  /** Queues rows on every stage. */
  async run(pass: Pass): Promise<PassEnd> {
    const { stages, links } = this;
    const rows = pass.counts[COUNT_TOKENS] as number;
    const crosses = links !== undefined && rows > 0;
    const message = crosses ? this.passed++ : 0;
    const awaited = crosses ? this.messageOf(pass.awaited) : undefined;
    const tells = crosses && pass.isSampled && (pass.counts[COUNT_DRAWS] as number) > 0;
    if (tells) this.tellsOf(pass.sampling);
    const { step, counts, recurring, input } = pass;
    const running = stages.map(({ device, forward, plan }, i) => {
      const isLast = i === stages.length - 1;
      const { tables, x } = forward;
      const residual = { address: x.address, bytes: 4 * rows * forward.model.hiddenSize };
      // Of a stage before the last the header alone: activations beyond a range are counted everywhere.
      const words = isLast ? pass.answerWords : Math.min(pass.answerWords, OUTPUT_HEADER);
      const answer = isLast ? pass.answer : pass.answer.subarray(headerOf(pass, i));
      const own: NativeStep = {
        ...{ plan: isLast ? (pass.plan ?? plan) : plan, step, counts, recurring, input },
        ...{ deviceInput: tables.device.address, deviceOutput: tables.answer.address },
        output: words === 0 ? NO_BYTES : new Uint8Array(answer.buffer, answer.byteOffset, 4 * words),
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

  /** Samples the rows that were computed last. */
  async sample(step: Omit<NativeStep, 'sends' | 'begins'>, sampling: Iterable<number>): Promise<number> {
    const { device, forward } = this.last;
    const tells = this.links !== undefined && (step.counts[COUNT_DRAWS] as number) > 0;
    if (tells) this.tellsOf(sampling);
    return device.native.run({ ...step, begins: false, sends: tells ? this.tokens(forward) : undefined });
  }

  /** Writes to the slots of every stage, and does nothing else. */
  async write(input: Int32Array, counts: Int32Array): Promise<number> {
    const running = this.stages.map(({ device, forward, plan }) =>
      device.native.run({
        ...{ plan, counts, recurring: false, input: new Uint8Array(input.buffer) },
        deviceInput: forward.tables.device.address,
        output: NO_BYTES,
        deviceOutput: forward.tables.output.address,
      }),
    );
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

/** Where the answers of stages before the last lie, behind the last one's. */
export const headerOf = ({ answer }: Pick<Pass, 'answer'>, stage: number): number =>
  answer.length - (1 + stage) * OUTPUT_HEADER;

/** What all come to; of failures the first one's: those behind it fail with it. */
async function firstFailure(running: readonly Promise<number>[]): Promise<number[]> {
  const ends = await Promise.allSettled(running);
  return ends.map((end) => {
    if (end.status === 'rejected') throw end.reason;
    return end.value;
  });
}
