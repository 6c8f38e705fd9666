import type { GgufModel } from '../../lib/gguf/reader.js';
import { readServableModel } from '../../lib/gguf/servable-model.js';
import { type RocmForgeError, typedError } from '../../shared/errors.js';
import { MOST_DRAFT_TOKENS, MOST_SEQUENCES } from '../../shared/step-limits.js';
import { Device, DeviceScope } from '../device/device.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { Limits } from '../model/limits.js';
import { blocksFor, stateCopies } from '../model/slot-layout.js';
import { bytesOnGpu } from '../model/weights.js';
import { slotWindowBlocks, workingWindowBlocks } from './block-budget.js';
import { CountingDevice, UNREAD, withoutWeights } from './counting-device.js';
import { largest } from './largest.js';
import type { LoadOptions } from './load-options.js';
import { loadOpened } from './loaded-model.js';
import { tensorsOnHost } from './placement.js';

/** Model and GPU to examine, with the wanted limits. */
export interface FitQuestion {
  readonly model: GgufModel;
  readonly kvCacheType: LoadOptions['kvCacheType'];
  /** Tokens of one sequence. */
  readonly context: number;
  /** 0: as many as the loader chooses. */
  readonly sequences: number;
  /** Number of recurrent states; absent: as many as the loader chooses. */
  readonly stateSnapshots?: number | undefined;
  /** Split of the model over several GPUs; absent: between layers. */
  readonly split?: LoadOptions['split'];
  /** Between layers, the parts of the model that each gets; absent: by their memory. */
  readonly shares?: LoadOptions['shares'];
  /** Layers whose routed experts stay in the host's memory; absent: as few as let the model fit. */
  readonly cpuExperts?: number | undefined;
}

/** A GPU to be filled, one that is there, or one that has so much memory; or several that a model is split over. */
export interface FitDevice {
  readonly description: string;
  readonly freeBytes: number;
  /** GPU that is there, of several the first; undefined if memory is only counted. */
  readonly device?: Device | undefined;
  /** For each load: they are given back empty. */
  devices(): readonly Device[];
  /** The same with so much less memory, that counts only. */
  counting(takenBytes: number): FitDevice;
}

/** Part of a split model on one of several GPUs. All sizes are bytes. */
export interface StageGrant {
  readonly device: string;
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly workspaceBytes: number;
}

/** Limits that a load is granted. All sizes are bytes on the GPU, or on all GPUs that the model is split over. */
export interface Grant {
  readonly context: number;
  readonly sequences: number;
  /** Tokens that all sequences together may hold. */
  readonly kvTokens: number;
  /** True if layers with a window have enough for what every sequence sees at once; true where there are none. */
  readonly holdsWindows: boolean;
  readonly kvBytes: number;
  /** Bytes of each token while its sequence runs, and of each sequence whatever its length. */
  readonly kvBytesPerToken: number;
  readonly windowBytes: number;
  /** Bytes of recurrent states: all of them, those of each sequence, and the number of snapshots among them. */
  readonly stateBytes: number;
  readonly stateBytesPerSequence: number;
  readonly stateSnapshots: number;
  readonly weightBytes: number;
  /** Layers, the last that have any, whose routed experts are in the host's memory, and bytes of their matrices there. */
  readonly cpuExperts: number;
  readonly hostBytes: number;
  /** Bytes of activations, tables, slots and rotations. */
  readonly workspaceBytes: number;
  /** Bytes that the driver took for itself: code, graphs, ends of pages. `null` if memory is only counted. */
  readonly driverBytes: number | null;
  /** Parts on each GPU of a split model. */
  readonly stages?: readonly StageGrant[];
}

/**
 * The most of something with which the model loads. 0: not even one. One more does not load; with experts in host memory on a GPU that is there
 * it may, where the driver takes less than in the load that was asked for.
 */
export interface Most {
  /** When all sequences may have their whole context at once. */
  readonly whole: number;
  /** When they share what there is: at least one may have its whole context. */
  readonly shared: number;
}

/** Limits of a model on a GPU. */
export interface Fit {
  readonly device: string;
  readonly freeBytes: number;
  /** With the context and the sequences that were asked for; `null` when the loader refuses them. */
  readonly granted: Grant | null;
  /** Why, in the loader's words. */
  readonly refusal: string | null;
  /** Tokens, for so many sequences. */
  readonly longestContext: Most & { readonly sequences: number };
  /** For so many tokens. */
  readonly mostSequences: Most & { readonly context: number };
}

/** A GPU that is not there, with so much memory free. @param target such as `sm_90`; kernels differ there */
export function countingGpu(description: string, target: string, freeBytes: number): FitDevice {
  return {
    description,
    freeBytes,
    devices: () => [counted(new Device(new CountingDevice(freeBytes), 'hip', target))],
    counting: (taken) => countingGpu(description, target, freeBytes - taken),
  };
}

/** The device with a host device that is only counted, too. */
function counted(device: Device): Device {
  device.opensHost = () => new Device(new CountingDevice(0), 'host', '');
  return device;
}

/** Several that a model is split over. */
export function gpuGroup(gpus: readonly FitDevice[]): FitDevice {
  return {
    description: gpus.map(({ description }) => description).join(' + '),
    freeBytes: gpus.reduce((sum, { freeBytes }) => sum + freeBytes, 0),
    device: gpus[0]?.device,
    devices: () => gpus.flatMap((gpu) => gpu.devices()),
    counting: (taken) => gpuGroup(gpus.map((gpu) => gpu.counting(taken / gpus.length))),
  };
}

/**
 * A GPU that is there: what fits is tried on it, without weights, so that its driver's own needs are counted too.
 *
 * @param memoryBytes that loads may take of it; default: what is free
 */
export function presentGpu(device: Device, memoryBytes = Number.POSITIVE_INFINITY): FitDevice {
  const { target, description } = device;
  const freeBytes = Math.min(device.native.memory().freeBytes, memoryBytes);
  return {
    description,
    freeBytes,
    device,
    devices: () => {
      const empty = emptyDevice(device);
      if (Number.isFinite(memoryBytes)) empty.limitMemory(memoryBytes);
      return [empty];
    },
    counting: (taken) => countingGpu(description, target, freeBytes - taken),
  };
}

/** See {@link withoutWeights}. */
export function emptyDevice(device: Device, isBrought?: (hostAddress: number) => boolean): Device {
  const empty = new Device(withoutWeights(device.native, isBrought), device.kind, device.target);
  empty.opensHost = () => device.host;
  return empty;
}

/**
 * Limits that a load is granted.
 *
 * @throws RocmForgeError of the loader, `OUT_OF_MEMORY` where it does not fit
 */
export async function grantOn(gpu: FitDevice, question: FitQuestion): Promise<Grant> {
  const { granted, refusal } = await attempt(gpu, question, question.context, question.sequences);
  if (granted === null) throw refusal;
  return granted;
}

/**
 * Limits of a model on a GPU, found by loading it there without its weights: the loader's own answer, whatever it is.
 *
 * @throws RocmForgeError of the loader, for a model or options that it would refuse on any GPU
 */
export async function fitModel(gpu: FitDevice, question: FitQuestion): Promise<Fit> {
  const asked = await attempt(gpu, question, question.context, question.sequences);
  const { refusal } = asked;
  if (refusal !== null && refusal.reason !== 'OUT_OF_MEMORY') throw refusal;
  const { granted } = asked;
  const sequences = question.sequences || (granted?.sequences ?? 1);
  // Counting is quick and right but for what the driver takes: where to begin on a GPU that is there.
  const counted = await answers(gpu.counting(granted?.driverBytes ?? 0), question, sequences);
  const { contexts, counts } = gpu.device ? await answers(gpu, question, sequences, counted) : counted;
  const { contextLength } = readServableModel(question.model);
  const tokens = (blocks: number): number => Math.min(blocks * KV_BLOCK_TOKENS, contextLength);
  return {
    device: gpu.description,
    freeBytes: gpu.freeBytes,
    granted,
    refusal: refusal?.message ?? null,
    longestContext: { sequences, whole: tokens(contexts.whole), shared: tokens(contexts.shared) },
    mostSequences: { context: question.context, ...counts },
  };
}

interface Answers {
  /** In KV blocks. */
  readonly contexts: Most;
  readonly counts: Most;
}

async function answers(gpu: FitDevice, question: FitQuestion, sequences: number, hint?: Answers): Promise<Answers> {
  const { contextLength } = readServableModel(question.model);
  const attempts = new Map<string, Attempt>();
  let likely: number | undefined;
  const tried = async (context: number, count: number): Promise<Attempt> => {
    const key = `${context} ${count}`;
    const known = attempts.get(key);
    if (known !== undefined) return known;
    const made = await attempt(gpu, question, context, count, likely);
    likely = made.granted?.cpuExperts ?? likely;
    attempts.set(key, made);
    return made;
  };
  const withBlocks = (blocks: number) => tried(Math.min(blocks * KV_BLOCK_TOKENS, contextLength), sequences);
  const withSequences = (count: number) => tried(question.context, count);
  const blocks = (tokens: number): number => Math.floor(tokens / KV_BLOCK_TOKENS);
  return {
    contexts: await most(withBlocks, (tokens) => blocks(tokens / sequences), blocksFor(contextLength), hint?.contexts),
    counts: await most(
      withSequences,
      (tokens) => Math.floor(blocks(tokens) / blocksFor(question.context)),
      MOST_SEQUENCES,
      hint?.counts,
    ),
  };
}

/** @param whole how many so many tokens would be enough for, where a load of more is granted no more tokens */
async function most(
  trial: (n: number) => Promise<Attempt>,
  whole: (tokens: number) => number,
  limit: number,
  hint?: Most,
): Promise<Most> {
  const nearest: typeof largest = async (holds, limit, hint) => {
    const isLikely = hint !== undefined && hint > 0 && hint <= limit;
    // With experts in host memory a load takes seconds, and what counting says is near enough if it loads.
    const isEnough = isLikely && (await holds(hint)) && ((await trial(hint)).granted?.cpuExperts ?? 0) > 0;
    return isEnough ? hint : largest(holds, limit, hint);
  };
  const shared = await nearest(async (n) => (await trial(n)).granted !== null, limit, hint?.shared);
  const isWhole = async (n: number): Promise<boolean> => {
    const { granted } = await trial(n);
    return (
      granted?.holdsWindows === true &&
      granted.kvTokens >= granted.sequences * blocksFor(granted.context) * KV_BLOCK_TOKENS
    );
  };
  const granted = shared > 0 ? (await trial(shared)).granted : null;
  // Tables grow with the limits, a little: the answer is near.
  const near = granted === null ? undefined : Math.min(whole(granted.kvTokens), shared);
  return { shared, whole: await nearest(isWhole, shared, hint?.whole ?? near) };
}

/** Windowed blocks that each slot has for itself. */
function windowBlocksOf({ windowed, maxContext }: Limits): number {
  return windowed === undefined ? 0 : slotWindowBlocks(windowed.window, maxContext);
}

function holdsWindows(limits: Limits): boolean {
  const { windowed, maxSequences } = limits;
  return windowed === undefined || windowed.blocks > workingWindowBlocks(windowed.window, limits, maxSequences);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

type Attempt =
  | { readonly granted: Grant; readonly refusal: null }
  | { readonly granted: null; readonly refusal: RocmForgeError };

/** Loads the model without its weights, and lets it go. @param likelyCpuExperts see `LoadOptions` */
async function attempt(
  gpu: FitDevice,
  question: FitQuestion,
  context: number,
  sequences: number,
  likelyCpuExperts?: number,
): Promise<Attempt> {
  const { model, kvCacheType, stateSnapshots, split, shares, cpuExperts = 'auto' } = question;
  const limits = { maxContext: context, maxSequences: sequences, maxStepTokens: 0, kvMemoryBytes: 0 };
  const draftTokens = MOST_DRAFT_TOKENS;
  const options: LoadOptions = {
    path: model.name,
    kvCacheType,
    stateSnapshots,
    draftTokens,
    split,
    shares,
    cpuExperts,
    likelyCpuExperts,
    fingerprint: '',
    ...limits,
  };
  const devices = gpu.devices();
  const bytes = largestExperts(model);
  const host = gpu.device && bytes > 0 ? new DeviceScope(gpu.device.host) : undefined;
  const experts = host?.allocate('u8', bytes).address ?? 0;
  const content = { ...UNREAD, address: () => experts };
  const freeOnAll = (): number => sum(devices.map(({ native }) => native.memory().freeBytes));
  const freeBefore = freeOnAll();
  try {
    const loaded = await loadOpened(devices, { model, content, fingerprint: '' }, options, () => undefined);
    const { kvBytes, stateBytes, pipeline, graph, cpuExperts: layers } = loaded;
    const onHost = tensorsOnHost(graph, layers);
    const { limits } = loaded.forward;
    const stages = pipeline.stages.map(({ device, graph, forward: { cache } }): StageGrant => {
      const weightBytes = bytesOnGpu(device, model, graph, onHost);
      const workspaceBytes = device.usedBytes - weightBytes - cache.bytes;
      return { device: device.description, weightBytes, kvBytes: cache.bytes, workspaceBytes };
    });
    const caches = pipeline.stages.map(({ forward: { cache } }) => cache);
    const used = sum(devices.map(({ usedBytes }) => usedBytes));
    const weightBytes = sum(stages.map((stage) => stage.weightBytes));
    const granted: Grant = {
      context,
      sequences: limits.maxSequences,
      kvTokens: (limits.kvBlocks - 1) * KV_BLOCK_TOKENS,
      holdsWindows: holdsWindows(limits),
      kvBytes,
      kvBytesPerToken: sum(caches.map(({ blockBytes }) => blockBytes)) / KV_BLOCK_TOKENS,
      windowBytes: windowBlocksOf(limits) * sum(caches.map(({ windowedBlockBytes }) => windowedBlockBytes)),
      stateBytes,
      stateBytesPerSequence: (2 * stateBytes) / stateCopies(limits),
      stateSnapshots: limits.stateSnapshots ?? 0,
      weightBytes,
      cpuExperts: layers,
      hostBytes: sum([...onHost].map(({ bytes }) => bytes)),
      workspaceBytes: used - weightBytes - kvBytes - stateBytes,
      driverBytes: gpu.device ? freeBefore - freeOnAll() - used : null,
      ...(stages.length > 1 && { stages }),
    };
    loaded.release();
    return { granted, refusal: null };
  } catch (error) {
    const refusal = typedError(error);
    if (refusal !== undefined) return { granted: null, refusal };
    throw error;
  } finally {
    host?.release();
  }
}

/** Bytes of the largest matrices of experts; 0 without any. The step that a load runs reads so much of what stays in host memory. */
const largestExperts = ({ tensors }: GgufModel): number =>
  Math.max(0, ...[...tensors.values()].filter(({ dims }) => dims.length === 3).map(({ bytes }) => bytes));
