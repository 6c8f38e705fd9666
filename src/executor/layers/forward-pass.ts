import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import type { DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import { LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { BlockPart, KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Sampling } from '../model/sampling.js';
import { emptySlots, slotArena, stateCopies } from '../model/slot-layout.js';
import { COUNT_SAMPLES, COUNT_TOKENS, COUNT_WRITES, STEP_COUNTS } from '../model/step-counts.js';
import { StepMasks } from '../model/step-masks.js';
import { StepTables } from '../model/step-tables.js';
import type { MatrixRef } from '../model/tensors.js';
import { kvLayers, type StageGraph, valuesOf } from '../model/values.js';
import { AllReduce } from './all-reduce.js';
import { fusionsOn, SINGLE_TOKEN } from './fusions.js';
import type { AttentionSplits } from './paged-attention.js';
import { Products } from './products.js';
import type { PlanParts, RecordedModel } from './recorded-model.js';
import { ResidualBranches } from './residual-branches.js';
import { returnedHiddenSize, returnedLabels } from './returned-states.js';
import { SingleToken } from './single-token.js';
import { StageInput } from './stage-input.js';
import { StageOutput } from './stage-output.js';
import type { StepSite } from './step-site.js';
import { ValueRecorder } from './value-recorder.js';
import { innerColumnsOf, widestOf } from './widths.js';

/** Parts of each KV block, of each block of layers with a window, and of each recurrent state. */
export interface BlockParts {
  readonly blocks: readonly BlockPart[];
  readonly windowBlocks: readonly BlockPart[];
  readonly states: readonly BlockPart[];
}

/** Kinds of values that matrices multiply. */
const INPUTS = [
  'norm',
  'gated',
  'activated',
  'attention',
  'latent-attention',
  'delta-net',
  'short-conv',
  'mamba',
  'layer-gated',
] as const;

/**
 * A model's graph, or a stage of it, as launches: what enters the residual stream (`stage-input.ts`), what layers add to it
 * (`residual-branches.ts`, whose values `value-recorder.ts` computes), and what is answered (`stage-output.ts`). The
 * residual stream is f32 everywhere.
 */
export class ForwardPass {
  /** The residual stream, `[max_step_tokens, hidden]`: what a stage receives and what it sends. */
  readonly x: DeviceBuffer;
  /** The token that each slot sampled last, `[slots]` i32: what the last stage of several sends to the first. */
  readonly lastTokens: DeviceBuffer | undefined;
  /** Memory in which a stage receives messages, each as large as what is received. */
  readonly receiveBuffers: readonly DeviceBuffer[];
  /** The slot arena; it begins with the slots, `[slots, slot_words]`. */
  readonly slots: DeviceBuffer;
  readonly tables: StepTables;
  readonly masks: StepMasks;
  readonly model: ModelParameters;
  readonly limits: Limits;
  readonly cache: KvCache;
  /** Memory of each part of recurrent states, `[states, …]` f32. */
  private readonly states: DeviceBuffer[] = [];

  private readonly graph: StageGraph;
  private readonly memory: DeviceScope;
  private readonly plan: LaunchPlanRecorder;
  private readonly values: ValueRecorder;
  private readonly output: StageOutput;

  /** @param within the scope that ends with it at the latest */
  constructor(within: DeviceScope, recorded: RecordedModel) {
    const { graph, parameters, limits, cache, stage, weights, without = [] } = recorded;
    const { maxStepTokens, maxSequences } = limits;
    const { hiddenSize } = parameters;
    const { device } = within;
    const values = [...valuesOf(graph)];
    this.graph = graph;
    this.model = parameters;
    this.limits = limits;
    this.cache = cache;
    this.memory = within.child();
    const { memory } = this;
    // The host is opened where something is computed there.
    const host = values.some((value) => value.kind === 'experts' && weights.isOnHost(value)) && device.host;
    this.plan = new LaunchPlanRecorder(device, STEP_COUNTS, host || undefined);
    this.tables = new StepTables(memory, limits, this.returnedHiddenSize, this.labels);
    this.masks = new StepMasks(memory, limits, parameters.vocabularySize);
    this.x = memory.allocate('f32', maxStepTokens * hiddenSize);
    const arena = slotArena(limits);
    this.slots = recorded.slots ?? memory.upload(emptySlots(arena));
    const isEnd = graph.embedding !== undefined || graph.logits !== undefined;
    if (stage !== undefined && isEnd) this.lastTokens = memory.upload(new Int32Array(arena.slots));
    const arrives = graph.embedding === undefined ? this.x : this.lastTokens;
    this.receiveBuffers = Array.from({ length: stage?.receiveBuffers ?? 0 }, () =>
      memory.allocate(arrives?.dtype ?? 'f32', arrives?.elements ?? 0),
    );

    const { plan, tables } = this;
    const widest = Math.max(
      hiddenSize,
      graph.entry === undefined ? 0 : 2 * hiddenSize,
      innerColumnsOf(graph),
      ...INPUTS.map((kind) => widestOf(values, kind, hiddenSize)),
    );
    const products = new Products(device, memory, plan, maxStepTokens, widest, tables.saturated);
    const fusions = fusionsOn(device.deviceClass, without);
    const tokens = { count: { index: COUNT_TOKENS, max: maxStepTokens }, present: tables.at('tokens') };
    const samples = { count: { index: COUNT_SAMPLES, max: maxSequences }, present: tables.at('samples') };
    const site: StepSite = {
      ...{
        device,
        memory,
        plan,
        recorded,
        model: parameters,
        weights,
        limits,
        cache,
        states: this.states,
        tables,
        fusions,
        products,
      },
      ...{ tokens, samples, x: this.x, slots: { buffer: this.slots, arena } },
      singleToken: fusions.has(SINGLE_TOKEN)
        ? new SingleToken(plan, memory, values, hiddenSize, tokens, products.columns)
        : undefined,
      ranks: recorded.rank && new AllReduce(plan, tables, recorded.rank, graph),
    };
    this.values = new ValueRecorder(site, graph, values);
    this.output = new StageOutput(site, this.values, this.masks, graph);
    this.record(site);
  }

  /** Gives back everything but the KV cache, the plan too. */
  release(): void {
    this.memory.release();
  }

  /** `[max_sequences, vocabulary]`; of a stage that is not the last nothing. */
  get logits(): DeviceBuffer {
    return this.output.logits;
  }

  /** Undefined of a stage that is not the last. */
  get sampling(): Sampling | undefined {
    return this.output.sampling;
  }

  /** Elements of a hidden state that steps may return; 0: none. */
  get returnedHiddenSize(): number {
    return returnedHiddenSize(this.graph, this.model.hiddenSize);
  }

  /** Scores that steps may return of a pooled hidden state; 0: none. */
  get labels(): number {
    return returnedLabels(this.graph);
  }

  /** Memory of KV blocks and recurrent states; those of a prediction block excepted, on which no token depends. */
  get blockParts(): BlockParts {
    const copies = stateCopies(this.limits);
    return {
      ...this.cache.partsOf(kvLayers(this.graph).keys()),
      states: this.states.map(({ address, elements }) => ({ address, bytes: (4 * elements) / copies })),
    };
  }

  /** Split of attention among blocks, for graphs: {@link AttentionVariant.splits}. */
  get splits(): AttentionSplits | undefined {
    return this.values.layers.splits;
  }

  /** Ends the recording. @returns the plan's number on the device */
  finish(): number {
    return this.memory.plan(this.plan.finish());
  }

  /** The same plan in two parts, for steps whose rows are masked: up to the logits, and from them on. */
  finishParts(): PlanParts {
    const forward = this.memory.plan(this.plan.finishPart('first'));
    return { forward, sampling: this.memory.plan(this.plan.finishPart('second')) };
  }

  /** The kernels of the plan, in order. */
  get kernels(): readonly string[] {
    return this.plan.kernels;
  }

  private record(site: StepSite): void {
    const { embedding, embeddingScale, segments, positions, residualBranches, logits, entry } = this.graph;
    const { weights, tokens } = site;
    const input = new StageInput(site, this.values, this.lastTokens);
    // The slots of a prediction block are the model's, which are written already.
    if (entry === undefined) this.writeSlots(site);
    this.plan.captureFromHere();
    if (entry !== undefined) input.enter(entry, weights.table(embedding as MatrixRef));
    else if (embedding !== undefined) input.embed(weights.table(embedding), this.x);
    if (embeddingScale !== undefined) this.values.scale(this.x, this.model.hiddenSize, embeddingScale, tokens);
    if (segments !== undefined) input.addSegment(weights.vector(segments), this.x);
    if (positions !== undefined) input.addPositions(weights.table(positions), this.x);
    const stream = { x: this.x, rows: tokens };
    this.values.layers.layerInputs?.record(
      (table, y) => input.embed(weights.table(table), y),
      (value, y) => this.values.product(value, y, stream),
    );
    this.values.layers.streams?.enter();
    new ResidualBranches(site, this.values).record(residualBranches, stream);
    this.values.layers.streams?.leave();
    if (logits !== undefined) this.output.record(logits, this.lastTokens);
    else this.output.returnStates();
  }

  /** Applies a step's writes to the slots. */
  private writeSlots({ slots: { buffer, arena } }: StepSite): void {
    const writes = { index: COUNT_WRITES, max: this.tables.maxWrites };
    this.plan.launch(
      kernels.slotWrite,
      { slots: buffer, writes: this.tables.at('writePairs'), count: this.tables.at('writes') },
      { slot_count: arena.slots, slot_words: arena.slotWords, writes },
    );
  }
}
