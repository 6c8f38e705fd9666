// One file because a load is one row of decisions, each of which needs what those before it found.

import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { canReplay } from '../../lib/gguf/recurrent.js';
import { readServableModel, type ServableModel } from '../../lib/gguf/servable-model.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { Device, DeviceScope } from '../device/device.js';
import { SavedMemory } from '../device/saved-memory.js';
import type { KvCacheType } from '../kernels/index.js';
import type { RankPlace } from '../layers/all-reduce.js';
import { ForwardPass } from '../layers/forward-pass.js';
import { SINGLE_TOKEN } from '../layers/fusions.js';
import type { RopeTables } from '../layers/paged-attention.js';
import { stateSizes } from '../layers/recurrent-layers.js';
import { uploadRopes } from '../layers/rope.js';
import { cacheSizes, checkKvCache, KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import { hasWeights } from '../model/noted-weights.js';
import { nullStates, sliceWords, stateCopies } from '../model/slot-layout.js';
import { stageTensors } from '../model/stages.js';
import { COUNT_DRAWS, COUNT_SAMPLES, COUNT_SLICES, settle } from '../model/step-counts.js';
import { parameterCount, tensorBytes } from '../model/tensors.js';
import { type Attention, isRecurrent, kvLayers, valuesOf } from '../model/values.js';
import { bytesOnGpu, Weights } from '../model/weights.js';
import { type WindowedLayers, windowedLayers } from '../model/windows.js';
import { readGraph } from '../models/index.js';
import { BlockChecksums } from '../parallel/block-checksums.js';
import { BlockCopies } from '../parallel/block-copies.js';
import { firstFailure, reserveSteps, type Stage } from '../parallel/model-devices.js';
import { Pipeline } from '../parallel/pipeline.js';
import { linkStages } from '../parallel/stage-links.js';
import { Ranks } from '../parallel/tensor-parallel.js';
import { BlockBudget } from './block-budget.js';
import { countsOf, GraphBuckets } from './graph-buckets.js';
import {
  type BlockCounts,
  checkContext,
  encoderLimits,
  GPU_SEQUENCES,
  HOST_SEQUENCES,
  type LoadOptions,
  limitsFor,
  type OwnLimits,
  STEP_TOKENS,
  snapshotsFor,
} from './load-options.js';
import type { LoadedModel, OpenedModel } from './loaded-model.js';
import { type Placement, placeExperts, type TriedLoad, tensorsOnHost } from './placement.js';
import { rankPlaces, type StageLoad, stageLoads } from './stage-loads.js';
import { StepGraphs } from './step-graphs.js';

/** Arguments with which a stage's forward pass is recorded, beside limits. */
interface Brought {
  readonly weights: Weights;
  readonly ropes: ReadonlyMap<Attention['rope'], RopeTables>;
}

/** Records the forward pass of every stage for such limits, each within a scope of its own. */
type RecordPasses = (within: readonly DeviceScope[], limits: Limits) => readonly ForwardPass[];

/** One load. */
export class ModelLoader {
  private readonly isHost: boolean;
  /** Another executor fits beside this one. */
  private hasRoomForSpare = true;
  private wantsSpare = false;
  /** True if another process has loaded the model with these limits, and its KV blocks are there. */
  private takesOver = false;
  private placement: Placement = { layers: 0, stepTokens: STEP_TOKENS };
  /** Tensors that are in the host's memory alone. */
  private onHost: ReadonlySet<GgufTensor> = new Set();

  /** @param memory one scope a device */
  constructor(
    private readonly memory: readonly DeviceScope[],
    private readonly opened: OpenedModel,
    private readonly options: LoadOptions,
  ) {
    this.isHost = memory.every(({ device }) => device.isHost);
    const { deviceMemoryBytes = 0 } = options;
    if (!this.isHost && deviceMemoryBytes > 0) for (const { device } of memory) device.limitMemory(deviceMemoryBytes);
  }

  async load(onProgress: (done: number, total: number) => void): Promise<LoadedModel> {
    const { memory, options, isHost } = this;
    const { model: file, content, fingerprint } = this.opened;
    const parameters = readServableModel(file);
    const own = this.limitsOf(parameters, isHost ? HOST_SEQUENCES : 1);
    checkContext(parameters, own.maxContext);
    const snapshots = snapshotsFor(options, own);
    const graph = readGraph(file, parameters, options.predicts === true && memory.length === 1);
    for (const { headDim } of kvLayers(graph).values()) checkKvCache({ ...parameters, headDim }, own);
    // Attention written out reads what a window hides.
    const windows = own.attention === 'unfused' ? undefined : windowedLayers(graph, own.maxContext);
    const blocks = new BlockBudget(options, kvLayers(graph), windows);
    const stages = stageLoads(memory, options, graph, blocks, windows);
    const tried: TriedLoad = (scope, ...how) => new ModelLoader([scope], ...how).load(() => undefined);
    this.placement = await placeExperts(memory, this.opened, options, graph, tried);
    if (!isHost) {
      this.onHost = tensorsOnHost(graph, this.placement.layers);
      for (const stage of stages) if (!hasWeights(stage.device)) refuseWhatCannotFit(file, stage, own, this.onHost);
    }
    const brought = await this.bring(stages, own.maxContext, onProgress);
    const predictions = new Map<ForwardPass, ForwardPass>();
    const record = (
      stage: StageLoad,
      within: DeviceScope,
      limits: Limits,
      rank: RankPlace | undefined,
    ): ForwardPass => {
      const { kvBlocks, windowed } = limits;
      const windowedBlocks = windowed && windows && { layers: windows.layers, blocks: windowed.blocks };
      const cache = new KvCache(within, stage.layers, options.kvCacheType, kvBlocks, windowedBlocks);
      const { without } = options;
      const place = stage.receiveBuffers === undefined ? undefined : { receiveBuffers: stage.receiveBuffers };
      const { prediction, ...graph } = stage.graph;
      const hiddenRows = prediction && within.allocate('f32', limits.maxStepTokens * parameters.hiddenSize);
      const recorded = {
        graph,
        ...{ stage: place, rank, hiddenRows },
        parameters,
        limits,
        cache,
        ...(brought.get(stage) as Brought),
      };
      const forward = new ForwardPass(within, { ...recorded, ...(without && { without }) });
      if (prediction !== undefined) {
        const { slots } = forward;
        // It has one row a slot where the model has one: its launches are those of any step.
        const own = { ...recorded, graph: prediction, slots, without: [...(without ?? []), SINGLE_TOKEN] };
        predictions.set(forward, new ForwardPass(within, own));
      }
      return forward;
    };
    const recordAll: RecordPasses = (within, limits) => {
      const places = rankPlaces(stages, within, limits, parameters);
      return stages.map((stage, i) => record(stage, within[i] as DeviceScope, limits, places[i]));
    };
    const limits = isHost
      ? { ...own, ...(own.isRecurrent && { stateSnapshots: snapshots }), ...blocks.wanted(own) }
      : await this.keptLimits(stages, () => this.limitsOfGpu(stages, parameters, recordAll));
    if (!isHost) await reserveKept(stages, options.kvCacheType, limits, windows);
    const passes = recordAll(memory, limits);
    const running = stages.map(({ device, graph }, i): Stage => {
      const forward = passes[i] as ForwardPass;
      const planParts = graph.logits === undefined ? undefined : forward.finishParts();
      return { device, graph, forward, plan: forward.finish(), planParts };
    });
    const forward = passes.at(-1) as ForwardPass;
    const predicting = predictions.get(forward);
    const splits = passes.find((pass) => pass.splits !== undefined)?.splits;
    const isSharded = stages.some(({ rank }) => rank !== undefined);
    const links = running.length === 1 || isSharded ? undefined : linkStages(running, memory);
    const pipeline = isSharded ? new Ranks(running) : new Pipeline(running, links);
    const checksums = new BlockChecksums(running, memory);
    const { savedMemory } = options;
    const copies =
      savedMemory === undefined ? undefined : new BlockCopies(running, memory, new SavedMemory(savedMemory));
    const graphs = new StepGraphs(isHost ? [] : running, new GraphBuckets(limits, splits));
    // Steps of several devices wait for each other, and a driver may let the memory of a graph wait for them.
    const mayWait = this.takesOver && running.length === 1;
    const captureMs = isHost || mayWait ? undefined : graphs.captureAll();
    const sum = (of: (stage: Stage) => number): number => running.reduce((total, stage) => total + of(stage), 0);
    return {
      options,
      architecture: parameters.architecture,
      fingerprint,
      contentChecksum: checksumOf([...brought.values()]),
      parameters: parameterCount(file),
      weightBytes: tensorBytes(file),
      stateBytes: stages.reduce((total, { perState }) => total + perState, 0) * stateCopies(limits),
      kvBytes: sum(({ forward: { cache } }) => cache.bytes),
      graph,
      forward,
      plan: pipeline.last.plan,
      prediction: predicting && { forward: predicting, plan: predicting.finish() },
      pipeline,
      splits,
      cpuExperts: isHost ? 0 : this.placement.layers,
      hostDevice: this.onHost.size > 0 ? memory[0]?.device.host : undefined,
      weights: (brought.get(stages.at(-1) as StageLoad) as Brought).weights,
      checksums,
      copies,
      hasRoomForSpare: this.hasRoomForSpare,
      restoredWeights: [...brought.values()].reduce((total, { weights }) => total + weights.restored, 0),
      graphs,
      captureMs,
      checkWeights: async () => {
        for (const { weights } of brought.values()) {
          if (await weights.isIntact()) continue;
          throw new RocmForgeError('EXECUTOR_UNAVAILABLE', 'weights in device memory are damaged');
        }
      },
      release: () => {
        for (const scope of memory) scope.release();
        content.close();
      },
    };
  }

  /** Brings the weights to the devices, one after the other. */
  private async bring(
    stages: readonly StageLoad[],
    positions: number,
    onProgress: (done: number, total: number) => void,
  ): Promise<ReadonlyMap<StageLoad, Brought>> {
    const { model: file, content } = this.opened;
    const bytes = stages.map(({ graph }) => stageTensors(file, graph).reduce((sum, tensor) => sum + tensor.bytes, 0));
    const total = bytes.reduce((sum, one) => sum + one, 0);
    const brought = new Map<StageLoad, Brought>();
    let before = 0;
    for (const [i, stage] of stages.entries()) {
      const { memory, graph } = stage;
      const already = before;
      const progress = (done: number): void => onProgress(already + done, total);
      const weights = await Weights.load(memory, file, content, graph, progress, this.onHost);
      brought.set(stage, { weights, ropes: uploadRopes(memory, graph, weights, positions) });
      before += bytes[i] as number;
    }
    return brought;
  }

  private limitsOf({ traits, hiddenSize }: ServableModel, sequences: number): OwnLimits {
    const { draftTokens = 0 } = this.options;
    const { recurrent } = traits;
    if (traits.isEncoder) return encoderLimits(this.options, hiddenSize, sequences);
    const states = recurrent && { isRecurrent: true, ...(draftTokens > 0 && canReplay(recurrent) && { draftTokens }) };
    return { ...limitsFor(this.options, sequences, this.placement.stepTokens), ...states };
  }

  /** Limits of the process that allocated what is kept, else those that are granted now: there is less memory left. */
  private async keptLimits(stages: readonly StageLoad[], grant: () => Promise<Limits>): Promise<Limits> {
    const kept = stages[0]?.device.kept;
    const noted = kept?.noted('limits');
    if (noted !== undefined) {
      this.takesOver = true;
      this.hasRoomForSpare = kept?.noted('spare') !== undefined;
      return JSON.parse(noted) as Limits;
    }
    this.wantsSpare = kept !== undefined && this.options.hasSpare === true;
    const limits = await grant();
    await kept?.note('limits', JSON.stringify(limits));
    if (this.hasRoomForSpare) await kept?.note('spare', 'fits');
    return limits;
  }

  /** Number of sequences granted on GPUs: the first of {@link GPU_SEQUENCES} that fits, if no number is requested. */
  private async limitsOfGpu(stages: readonly StageLoad[], model: ServableModel, record: RecordPasses): Promise<Limits> {
    const { options } = this;
    const logitsBytes = 2 * model.vocabularySize * Float32Array.BYTES_PER_ELEMENT;
    const mayFit = (count: number): boolean =>
      count === 1 ||
      (count <= (options.maxStepTokens || STEP_TOKENS) &&
        stages.every(({ device, graph, blocks, perState }) => {
          const perSequence = blocks.expectedBytes + 2 * perState + (graph.logits === undefined ? 0 : logitsBytes);
          return count * perSequence + RESERVED_BYTES <= device.freeBytes;
        }));
    const choices = options.maxSequences === 0 ? GPU_SEQUENCES.filter(mayFit) : [options.maxSequences];
    for (const count of choices.slice(0, -1)) {
      const limits = this.limitsOf(model, count);
      try {
        const left = this.besideSnapshots(limits, await this.leftOn(stages, limits, record));
        if (left.rooms.every(({ stage, bytes }) => stage.blocks.holds(limits, bytes))) return grantedOn(left, limits);
      } catch (error) {
        if (!(error instanceof RocmForgeError && error.reason === 'OUT_OF_MEMORY')) throw error;
      }
    }
    const limits = this.limitsOf(model, choices.at(-1) as number);
    return grantedOn(this.besideSnapshots(limits, await this.leftOn(stages, limits, record)), limits);
  }

  /**
   * Bytes that each stage's GPU has left for the KV cache once the largest step has run and every graph is there: code objects
   * are loaded by then, and every buffer of the forward pass is allocated. The graphs are those of another plan of the same
   * launches; the final one can only be recorded when the cache has its place.
   */
  private async leftOn(
    stages: readonly StageLoad[],
    limits: OwnLimits,
    record: RecordPasses,
  ): Promise<readonly Room[]> {
    const within = this.memory.map((scope) => scope.child(false));
    try {
      // All rows are those of the null slot, whose positions lie in the null blocks.
      const nulls = stages.map(({ blocks }) => blocks.nullBlocks);
      const passes = record(within, {
        ...limits,
        ...(nulls.find(({ windowed }) => windowed) ?? (nulls[0] as BlockCounts)),
      });
      const plans = passes.map((forward) => forward.finish());
      for (const [i, forward] of passes.entries()) reserveSteps((stages[i] as StageLoad).device, forward);
      // All at once: those of a tensor split wait for each other.
      await firstFailure(
        passes.map((forward, i) =>
          runNullStep((stages[i] as StageLoad).device, forward, plans[i] as number, limits.maxStepTokens),
        ),
      );
      const rooms = stages.map((stage, i) => {
        const { splits } = passes[i] as ForwardPass;
        const planOnDevice = { device: stage.device, plan: plans[i] as number };
        new StepGraphs([planOnDevice], new GraphBuckets(limits, splits)).captureAll();
        const bytes = stage.device.freeBytes - RESERVED_BYTES;
        return { stage, bytes, spareBytes: stage.device.ownBytes + SPARE_BYTES };
      });
      // A spare is worth some room for KV blocks, and not most of it.
      this.hasRoomForSpare =
        this.wantsSpare && rooms.every(({ bytes, spareBytes }) => spareBytes < bytes * SPARE_SHARE);
      return rooms.map(({ stage, bytes, spareBytes }) => ({
        stage,
        bytes: this.hasRoomForSpare ? bytes - spareBytes : bytes,
      }));
    } finally {
      for (const scope of within) scope.release();
    }
  }

  /** Number of snapshots, and the bytes that they leave for KV blocks. @param rooms for both */
  private besideSnapshots(limits: OwnLimits, rooms: readonly Room[]): Left {
    if (!limits.isRecurrent) return { limits, rooms };
    const wanted = snapshotsFor(this.options, limits);
    const isAsked = this.options.stateSnapshots !== undefined;
    const fitting = rooms.map(({ stage: { blocks, perState }, bytes }) => {
      // Nobody asked for them: they are to cost neither a sequence nor most of the others' room.
      const most = Math.min(bytes * SNAPSHOT_SHARE, bytes - blocks.leastBytes(limits));
      return perState === 0 ? wanted : Math.min(wanted, Math.max(0, Math.floor(most / perState)));
    });
    const stateSnapshots = isAsked ? wanted : Math.min(...fitting);
    return {
      limits: { ...limits, stateSnapshots },
      rooms: rooms.map(({ stage, bytes }) => {
        const taken = stateSnapshots * stage.perState;
        if (taken <= bytes) return { stage, bytes: bytes - taken };
        const of = `${stateSnapshots} × ${stage.perState} bytes of ${Math.max(0, bytes)}`;
        throw new RocmForgeError('OUT_OF_MEMORY', `snapshots of recurrent states take ${of} that are left for them`);
      }),
    };
  }
}

/** Summed, as those of its tensors are: stages are loaded in an order of their own. */
function checksumOf(brought: readonly Brought[]): bigint {
  return BigInt.asUintN(
    64,
    brought.reduce((sum, { weights }) => sum + weights.checksum, 0n),
  );
}

/** Bytes that a stage's device has left. */
interface Room {
  readonly stage: StageLoad;
  readonly bytes: number;
}

/** Known limits, and the bytes left for KV blocks. */
interface Left {
  readonly limits: Omit<Limits, 'kvBlocks'>;
  readonly rooms: readonly Room[];
}

/** Blocks are the same ones on every device: there are as many as the least of them holds. */
function grantedOn({ limits, rooms }: Left, own: OwnLimits): Limits {
  const counts = rooms.map(({ stage, bytes }) => stage.blocks.within(bytes, own));
  const windows = counts.flatMap(({ windowed }) => (windowed === undefined ? [] : [windowed]));
  const [first] = windows;
  return {
    ...limits,
    kvBlocks: Math.min(...counts.map(({ kvBlocks }) => kvBlocks)),
    ...(first && { windowed: { ...first, blocks: Math.min(...windows.map(({ blocks }) => blocks)) } }),
  };
}

/** Share for snapshots of the memory left by weights, slots and steps, if no number is given. */
const SNAPSHOT_SHARE = 1 / 4;

/** Room for KV blocks and states in memory that outlives this process, where the device has such. */
async function reserveKept(
  stages: readonly StageLoad[],
  type: KvCacheType,
  limits: Limits,
  windows: WindowedLayers | undefined,
): Promise<void> {
  const windowed = limits.windowed && windows && { layers: windows.layers, blocks: limits.windowed.blocks };
  for (const { device, layers, graph } of stages) {
    const sizes = cacheSizes(layers, type, limits.kvBlocks, windowed);
    await device.kept?.reserve('kv', [...sizes, ...stateSizes([...valuesOf(graph)].filter(isRecurrent), limits)]);
  }
}

/** Share of the memory for KV blocks that is left to a spare executor at most. */
const SPARE_SHARE = 1 / 4;
/** Memory of a GPU that a process takes beside its allocations: context, code objects and graphs. */
const SPARE_BYTES = 768 << 20;

/** Memory of a GPU that stays free: what the driver takes for itself as time goes by. */
const RESERVED_BYTES = 256 << 20;

/** Refuses a model before anything of it is uploaded. */
function refuseWhatCannotFit(
  file: GgufModel,
  { device, graph, blocks, receiveBuffers }: StageLoad,
  own: OwnLimits,
  onHost: ReadonlySet<GgufTensor>,
): void {
  const leastKvBytes = blocks.leastBytes(own);
  const { freeBytes } = device;
  const { totalBytes } = device.native.memory();
  const weightBytes = bytesOnGpu(device, file, graph, onHost);
  if (weightBytes + leastKvBytes + RESERVED_BYTES <= freeBytes) return;
  const size = (bytes: number) => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
  const isSplit = receiveBuffers !== undefined;
  throw new RocmForgeError(
    'OUT_OF_MEMORY',
    `${file.name} does not fit: ${size(weightBytes)} of weights, ${size(leastKvBytes)} for the KV cache of one sequence and ` +
      `${size(RESERVED_BYTES)} that stay free for the driver, ${size(freeBytes)} of ${size(totalBytes)} free` +
      `${isSplit ? ' on one of the GPUs' : ''}; lower the context, ${isSplit ? 'use' : 'split it over'} more GPUs or take a smaller model`,
  );
}

/** Runs a step whose rows are all of the null slot. */
async function runNullStep(device: Device, forward: ForwardPass, plan: number, rows: number): Promise<number> {
  const { limits, tables } = forward;
  const samples = Math.min(rows, limits.maxSequences);
  const input = new Int32Array(tables.offsets.writePairs);
  input[tables.offsets.tokens] = rows;
  input[tables.offsets.samples] = samples;
  input[tables.offsets.pass] = 1;
  input.fill(limits.maxSequences, tables.offsets.rowSlot, tables.offsets.rowSlot + rows);
  const counts = countsOf({ rows, splits: 0, mode: 'any' });
  counts[COUNT_SAMPLES] = samples;
  counts[COUNT_DRAWS] = samples;
  settle(counts);
  for (let row = 0; row < rows; row++) input.set([row, 1], tables.offsets.tiles + 2 * row);
  if (limits.isRecurrent) {
    // One slice: each row's place among them is 0.
    input.set(sliceWords(0, rows, nullStates(limits)), tables.offsets.slices);
    counts[COUNT_SLICES] = 1;
  }
  return device.native.run({
    plan,
    counts,
    recurring: false,
    input: new Uint8Array(input.buffer),
    deviceInput: tables.device.address,
    output: new Uint8Array(0),
    deviceOutput: tables.output.address,
  });
}
