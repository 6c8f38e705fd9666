import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition } from '../kernels/launch-plan.js';
import { Sampling, type Slots } from '../model/sampling.js';
import { neutralSlots, SlotWord, slotArena } from '../model/slot-layout.js';
import { COUNT_GATHERED, COUNT_SINGLE_TOKEN } from '../model/step-counts.js';
import type { StepMasks } from '../model/step-masks.js';
import type { Linear, Norm, StageGraph } from '../model/values.js';
import { ReturnedStates, returnedStates } from './returned-states.js';
import type { StepSite } from './step-site.js';
import type { ValueRecorder } from './value-recorder.js';

/** Steps whose only row is sampled. */
const ALONE: LaunchCondition = { count: { index: COUNT_SINGLE_TOKEN, max: 1 }, atLeast: 1 };

/** From the residual stream to what a step answers: hidden states, logits, tokens. */
export class StageOutput {
  /** The residual stream of the sampled rows, `[max_sequences, hidden]`. */
  private readonly sampled: DeviceBuffer;
  /** `[max_sequences, vocabulary]`; of a stage that is not the last nothing. */
  readonly logits: DeviceBuffer;
  /** Undefined of a stage that is not the last. */
  sampling: Sampling | undefined;

  constructor(
    private readonly site: StepSite,
    private readonly values: ValueRecorder,
    private readonly masks: StepMasks,
    private readonly graph: StageGraph,
  ) {
    const outputs = graph.logits === undefined ? 0 : site.limits.maxSequences;
    this.sampled = site.memory.allocate('f32', outputs * site.model.hiddenSize);
    this.logits = site.memory.allocate('f32', outputs * site.model.vocabularySize);
  }

  /** @param lastTokens for another device, which embeds them: what each slot sampled last */
  record(logits: Linear, lastTokens: DeviceBuffer | undefined): void {
    const { x, tokens, samples, recorded } = this.site;
    const { hiddenRows } = recorded;
    const isPrediction = this.graph.entry !== undefined;
    const keepHidden = (of: DeviceBuffer, rows = tokens) => {
      if (hiddenRows !== undefined) this.values.plainNorm(logits.of as Norm, of, hiddenRows, rows);
    };
    if (!isPrediction) keepHidden(x);
    this.returnStates();
    this.sample(logits);
    if (isPrediction) keepHidden(this.sampled, samples);
    if (this.graph.embedding === undefined) this.gatherLastTokens(lastTokens as DeviceBuffer);
  }

  /** Hidden states, if the stage returns any. */
  returnStates(): void {
    const states = returnedStates(this.graph);
    if (states !== undefined) new ReturnedStates(this.site, this.values, this.graph).record(states);
  }

  /** Norm and output projection of the sampled rows, the draw of their tokens, and the log probabilities asked for. */
  private sample(logits: Linear): void {
    const { device, memory, plan, tables, limits, model, ranks, x, tokens, samples } = this.site;
    const { logitsScale, logitsSoftcap: cap } = this.graph;
    const { hiddenSize, vocabularySize: columns } = model;
    const own = ranks?.logits ?? this.logits;
    const row = this.values.rowProduct(logits, own, { x, rows: tokens }, ALONE);
    const rows = row === undefined ? samples : { ...samples, count: { ...samples.count, index: COUNT_GATHERED } };
    plan.launch(
      kernels.gatherRows,
      { x, y: this.sampled, index: tables.at('sampleRow'), hidden: hiddenSize },
      { tokens: tokens.count, samples: rows.count },
    );
    this.values.product(logits, own, { x: this.sampled, rows });
    ranks?.gather(this.logits, columns, samples);
    if (logitsScale !== undefined) this.values.scale(this.logits, columns, logitsScale, samples);
    if (cap !== undefined) plan.launch(kernels.softcap, { x: this.logits, columns, cap }, { rows: samples.count });
    plan.secondPartFromHere();
    this.sampling = new Sampling(device, memory, plan, tables, this.masks, this.sampledSlots(), limits, columns);
    this.sampling.record(this.logits);
  }

  /** For drafts slots whose tokens are the likeliest: they are not sampled as their slots wish, whose last token stays. */
  private sampledSlots(): Slots {
    const { recorded, slots, limits, memory } = this.site;
    if (recorded.slots === undefined) return slots;
    const arena = slotArena({ maxSequences: limits.maxSequences, maxContext: 1 });
    return { buffer: memory.upload(neutralSlots(arena)), arena };
  }

  /** lastTokens = the word of each slot that says what it sampled last: side by side, they are one message. */
  private gatherLastTokens(lastTokens: DeviceBuffer): void {
    const { memory, plan } = this.site;
    const { buffer, arena } = this.site.slots;
    const { slots: count, slotWords } = arena;
    const words = Int32Array.from({ length: count }, (_, slot) => slot * slotWords + SlotWord.lastToken);
    // Rows of one word each.
    const values = { x: asF32(buffer), y: asF32(lastTokens), hidden: 1 };
    plan.launch(
      kernels.gatherRows,
      { ...values, index: memory.upload(words) },
      { tokens: arena.words, samples: count },
    );
  }
}

/** Words that are moved, whatever they hold. */
const asF32 = (words: DeviceBuffer): DeviceBuffer => ({ ...words, dtype: 'f32' });
