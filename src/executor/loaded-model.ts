import { RocmForgeError } from '../shared/errors.js';
import { ModelFiles } from '../shared/gguf/model-files.js';
import type { GgufModel } from '../shared/gguf/reader.js';
import { readServableModel, type ServableModel } from '../shared/gguf/servable-model.js';
import { BlockBudget } from './block-budget.js';
import { type Device, DeviceScope } from './device/device.js';
import { countsOf, GraphBuckets } from './graph-buckets.js';
import { ForwardPass } from './layers/forward-pass.js';
import type { PlanParts } from './layers/recorded-model.js';
import { stateBytes } from './layers/recurrent-layers.js';
import { uploadRopes } from './layers/rope.js';
import {
  checkContext,
  GPU_SEQUENCES,
  HOST_SEQUENCES,
  type LoadOptions,
  limitsFor,
  type OwnLimits,
  STEP_TOKENS,
  snapshotsFor,
} from './load-options.js';
import { checkKvCache, KvCache } from './model/kv-cache.js';
import type { Limits } from './model/limits.js';
import { MappedModel, type ModelContent } from './model/mapped-model.js';
import { nullStates, stateCopies } from './model/slot-layout.js';
import { COUNT_DRAWS, COUNT_SAMPLES, COUNT_SLICES } from './model/step-counts.js';
import { kvLayers, type ModelGraph, valuesOf } from './model/values.js';
import { bytesOnGpu, Weights } from './model/weights.js';
import { windowedLayers } from './model/windows.js';
import { readGraph } from './models/index.js';

/** A model whose plan is recorded: ready to run steps. */
export interface LoadedModel {
  readonly options: LoadOptions;
  readonly architecture: string;
  /** The model's content identity. */
  readonly fingerprint: string;
  readonly parameters: number;
  readonly weightBytes: number;
  /** Of recurrent states, those of snapshots included. */
  readonly stateBytes: number;
  readonly graph: ModelGraph;
  readonly forward: ForwardPass;
  readonly plan: number;
  /** The same in two, for steps whose rows are masked. */
  readonly planParts: PlanParts;
  /** Kept because the plan's pointers lead into their mapping. */
  readonly weights: Weights;
  readonly buckets: GraphBuckets;
  /** What capturing a graph for each bucket took; 0 where there are none. */
  readonly captureMs: number;
  /** Gives back everything on the device. It must not run again. */
  release(): void;
}

/**
 * Loads a model from its GGUF file, or its parts, and records its launch plan. A load that fails leaves nothing on the device.
 *
 * @throws RocmForgeError with the reason of the first thing that does not fit: file, architecture, tensor, memory
 */
export async function loadModel(
  device: Device,
  options: LoadOptions,
  onProgress: (done: number, total: number) => void,
): Promise<LoadedModel> {
  const { path, openPaths } = options;
  const files = new ModelFiles(path, openPaths);
  let mapping: MappedModel | undefined;
  try {
    // Whoever writes to it from now on is noticed: what is told of the content below holds for what is loaded.
    mapping = new MappedModel(files.parts);
    const fingerprint = files.identity();
    if (options.fingerprint !== '' && options.fingerprint !== fingerprint) {
      throw new RocmForgeError(
        'MODEL_FILE_CHANGED',
        `${path} is not the file that the gateway reads, or not any more: their contents differ`,
      );
    }
    return await loadOpened(device, { model: files.model, content: mapping, fingerprint }, options, onProgress);
  } catch (error) {
    mapping?.close();
    throw error;
  } finally {
    files.close();
  }
}

/** A model whose headers were read. */
export interface OpenedModel {
  readonly model: GgufModel;
  /** Of its tensors; it ends with the loaded model. */
  readonly content: ModelContent;
  readonly fingerprint: string;
}

/** Loads a model whose headers were read. A load that fails leaves nothing on the device. */
export async function loadOpened(
  device: Device,
  opened: OpenedModel,
  options: LoadOptions,
  onProgress: (done: number, total: number) => void,
): Promise<LoadedModel> {
  const memory = new DeviceScope(device);
  try {
    return await new ModelLoader(memory, opened, options).load(onProgress);
  } catch (error) {
    try {
      memory.release();
    } catch {
      // A device that cannot even free is lost; why the load failed is what matters.
    }
    // What contracts say of sizes; sizes are the file's here.
    if (!(error instanceof RangeError)) throw error;
    const cause = error;
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `no kernel takes the shapes of ${options.path}: ${cause.message}`,
      {},
      { cause },
    );
  }
}

/** Records the forward pass for such limits. */
type RecordPass = (within: DeviceScope, limits: Limits) => ForwardPass;

/** One load; everything of it on the device is in one scope. */
class ModelLoader {
  private readonly device: Device;

  constructor(
    private readonly memory: DeviceScope,
    private readonly opened: OpenedModel,
    private readonly options: LoadOptions,
  ) {
    this.device = memory.device;
  }

  async load(onProgress: (done: number, total: number) => void): Promise<LoadedModel> {
    const { device, memory, options } = this;
    const { model: file, content, fingerprint } = this.opened;
    const parameters = readServableModel(file);
    const own = this.limitsOf(parameters, device.isHost ? HOST_SEQUENCES : 1);
    checkContext(parameters, own.maxContext);
    checkKvCache(parameters, own);
    const snapshots = snapshotsFor(options, own);
    const graph = readGraph(file, parameters);
    const perState = stateBytes([...valuesOf(graph)].filter((value) => value.kind === 'delta-net'));
    // Attention written out reads what a window hides.
    const windows = own.attention === 'unfused' ? undefined : windowedLayers(graph, own.maxContext);
    const cached = { ...parameters, layers: kvLayers(graph) };
    const blocks = new BlockBudget(options, cached, windows);
    if (!device.isHost) refuseWhatCannotFit(device, file, graph, blocks.leastBytes(own));
    const weights = await Weights.load(memory, file, content, graph, onProgress);
    const ropes = uploadRopes(memory, graph, weights, own.maxContext);
    const record: RecordPass = (within, limits) => {
      const { kvBlocks, windowed } = limits;
      const windowedBlocks = windowed && windows && { layers: windows.layers, blocks: windowed.blocks };
      const cache = new KvCache(within, cached, options.kvCacheType, kvBlocks, windowedBlocks);
      const { without } = options;
      const recorded = { graph, parameters, weights, ropes, limits, cache };
      return new ForwardPass(within, { ...recorded, ...(without && { without }) });
    };
    const limits = device.isHost
      ? { ...own, ...(own.isRecurrent && { stateSnapshots: snapshots }), ...blocks.wanted(own) }
      : await this.limitsOfGpu(blocks, parameters, perState, record);
    const forward = record(memory, limits);
    const plan = forward.finish();
    const planParts = forward.finishParts();
    const buckets = new GraphBuckets(limits, forward.splits);
    const captureMs = device.isHost ? 0 : captureGraphs(device, plan, buckets);
    return {
      options,
      architecture: parameters.architecture,
      fingerprint,
      parameters: weights.parameters,
      weightBytes: weights.bytes,
      stateBytes: perState * stateCopies(limits),
      graph,
      forward,
      plan,
      planParts,
      weights,
      buckets,
      captureMs,
      release: () => {
        memory.release();
        content.close();
      },
    };
  }

  private limitsOf({ traits }: ServableModel, sequences: number): OwnLimits {
    return { ...limitsFor(this.options, sequences), ...(traits.recurrent && { isRecurrent: true }) };
  }

  /**
   * Bytes that a GPU has left for the KV cache once the largest step has run and every graph is there: code objects are
   * loaded by then, and every buffer of the forward pass is allocated. The graphs are those of another plan of the same
   * launches; the final one can only be recorded when the cache has its place.
   */
  private async freeAfterWarmUp(limits: OwnLimits, blocks: BlockBudget, record: RecordPass): Promise<number> {
    const { device } = this;
    const within = this.memory.child();
    try {
      // All rows are those of the null slot, whose positions lie in the null blocks.
      const forward = record(within, { ...limits, ...blocks.nullBlocks });
      const plan = forward.finish();
      await runNullStep(device, forward, plan, limits.maxStepTokens);
      captureGraphs(device, plan, new GraphBuckets(limits, forward.splits));
      return device.native.memory().freeBytes - RESERVED_BYTES;
    } finally {
      within.release();
    }
  }

  /**
   * What is granted on a GPU: of {@link GPU_SEQUENCES} the first that fits, where no number is asked for.
   *
   * @param perState bytes of one recurrent state
   */
  private async limitsOfGpu(
    blocks: BlockBudget,
    model: ServableModel,
    perState: number,
    record: RecordPass,
  ): Promise<Limits> {
    const { options, device } = this;
    const perSequence = blocks.expectedBytes + 2 * perState + 2 * model.vocabularySize * Float32Array.BYTES_PER_ELEMENT;
    const { freeBytes } = device.native.memory();
    const mayFit = (count: number): boolean =>
      count === 1 ||
      (count * perSequence + RESERVED_BYTES <= freeBytes && count <= (options.maxStepTokens || STEP_TOKENS));
    const choices = options.maxSequences === 0 ? GPU_SEQUENCES.filter(mayFit) : [options.maxSequences];
    for (const count of choices.slice(0, -1)) {
      const limits = this.limitsOf(model, count);
      try {
        const left = this.besideSnapshots(limits, blocks, await this.freeAfterWarmUp(limits, blocks, record), perState);
        if (blocks.holds(limits, left.bytes)) return { ...left.limits, ...blocks.within(left.bytes, limits) };
      } catch (error) {
        if (!(error instanceof RocmForgeError && error.reason === 'OUT_OF_MEMORY')) throw error;
      }
    }
    const limits = this.limitsOf(model, choices.at(-1) as number);
    const left = this.besideSnapshots(limits, blocks, await this.freeAfterWarmUp(limits, blocks, record), perState);
    return { ...left.limits, ...blocks.within(left.bytes, limits) };
  }

  /** How many snapshots there are, and what they leave for KV blocks. @param free bytes for both */
  private besideSnapshots(
    limits: OwnLimits,
    blocks: BlockBudget,
    free: number,
    perState: number,
  ): { readonly limits: Omit<Limits, 'kvBlocks'>; readonly bytes: number } {
    if (!limits.isRecurrent) return { limits, bytes: free };
    const wanted = snapshotsFor(this.options, limits);
    // Nobody asked for them: they are to cost neither a sequence nor most of the others' room.
    const most = Math.min(free * SNAPSHOT_SHARE, free - blocks.leastBytes(limits));
    const isAsked = this.options.stateSnapshots !== undefined;
    const stateSnapshots = isAsked ? wanted : Math.min(wanted, Math.max(0, Math.floor(most / perState)));
    if (stateSnapshots * perState > free) {
      const bytes = `${stateSnapshots} × ${perState} bytes of ${Math.max(0, free)}`;
      throw new RocmForgeError('OUT_OF_MEMORY', `snapshots of recurrent states take ${bytes} that are left for them`);
    }
    return { limits: { ...limits, stateSnapshots }, bytes: free - stateSnapshots * perState };
  }
}

/** Captures a graph for each bucket. @returns milliseconds */
function captureGraphs(device: Device, plan: number, buckets: GraphBuckets): number {
  const began = performance.now();
  for (const bucket of buckets.all()) device.native.capture(plan, countsOf(bucket));
  return performance.now() - began;
}

/** Of what weights, slots and steps leave, the part that snapshots get at most where nobody says how many. */
const SNAPSHOT_SHARE = 1 / 4;

/** Memory of a GPU that stays free: what the driver takes for itself as time goes by. */
const RESERVED_BYTES = 256 << 20;

/** Refuses a model before anything of it is uploaded. */
function refuseWhatCannotFit(device: Device, file: GgufModel, graph: ModelGraph, leastKvBytes: number): void {
  const { freeBytes, totalBytes } = device.native.memory();
  const weightBytes = bytesOnGpu(device, file, graph);
  if (weightBytes + leastKvBytes + RESERVED_BYTES <= freeBytes) return;
  const giga = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
  throw new RocmForgeError(
    'OUT_OF_MEMORY',
    `${file.name} does not fit: ${giga(weightBytes)} of weights and ${giga(leastKvBytes)} for the KV cache of one sequence, ` +
      `${giga(freeBytes)} of ${giga(totalBytes)} free; lower the context or take a smaller model`,
  );
}

/** Runs a step whose rows are all of the null slot. */
async function runNullStep(device: Device, forward: ForwardPass, plan: number, rows: number): Promise<void> {
  const { limits, tables } = forward;
  const samples = Math.min(rows, limits.maxSequences);
  const input = new Int32Array(tables.offsets.writePairs);
  input[tables.offsets.tokens] = rows;
  input[tables.offsets.samples] = samples;
  input.fill(limits.maxSequences, tables.offsets.rowSlot, tables.offsets.rowSlot + rows);
  const counts = countsOf({ rows, splits: 0 });
  counts[COUNT_SAMPLES] = samples;
  counts[COUNT_DRAWS] = samples;
  for (let row = 0; row < rows; row++) input.set([row, 1], tables.offsets.tiles + 2 * row);
  if (limits.isRecurrent) {
    // One slice: each row's place among them is 0.
    const { source, target } = nullStates(limits);
    input.set([0, rows, source, target], tables.offsets.slices);
    counts[COUNT_SLICES] = 1;
  }
  await device.native.run({
    plan,
    counts,
    recurring: false,
    input: new Uint8Array(input.buffer),
    deviceInput: tables.device.address,
    output: new Uint8Array(0),
    deviceOutput: tables.output.address,
  });
}
