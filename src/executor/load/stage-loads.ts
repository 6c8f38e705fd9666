import type { ServableModel } from '../../lib/gguf/servable-model.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { Device, DeviceScope } from '../device/device.js';
import { RANK_COUNTS, type RankCount } from '../kernels/index.js';
import { type RankPlace, rankMemory } from '../layers/all-reduce.js';
import { stateBytes } from '../layers/recurrent-layers.js';
import type { Limits } from '../model/limits.js';
import { type Rank, shardGraph } from '../model/shards.js';
import { cutGraph } from '../model/stages.js';
import {
  type DecoderGraph,
  type HeadShape,
  isRecurrent,
  kvLayers,
  type ModelGraph,
  type StageGraph,
  valuesOf,
} from '../model/values.js';
import type { WindowedLayers } from '../model/windows.js';
import { RESIDUAL_MESSAGES, reaches, TOKEN_MESSAGES } from '../parallel/stage-links.js';
import { BlockBudget } from './block-budget.js';
import type { LoadOptions } from './load-options.js';

/** Part of a model that one device computes; everything of it on its device is in one scope. */
export interface StageLoad {
  readonly memory: DeviceScope;
  readonly device: Device;
  readonly graph: StageGraph;
  /** Its layers with keys and values. */
  readonly layers: ReadonlyMap<number, HeadShape>;
  readonly blocks: BlockBudget;
  /** Bytes of one recurrent state, over its layers. */
  readonly perState: number;
  /** Messages that may be in flight to it in its memory; undefined if the model is not split between layers. */
  readonly receiveBuffers: number | undefined;
  /** Which shard it is; undefined where the model is not split into shards. */
  readonly rank: Rank | undefined;
}

/**
 * Parts of the model that each device computes.
 *
 * @param whole of a model on one device
 * @throws RocmForgeError `INVALID_OPTION` for what is not split in this way, or not over these devices
 */
export function stageLoads(
  memory: readonly DeviceScope[],
  options: LoadOptions,
  graph: ModelGraph,
  whole: BlockBudget,
  windows: WindowedLayers | undefined,
): readonly StageLoad[] {
  if (memory.length === 1) {
    const [scope] = memory as readonly [DeviceScope];
    const layers = kvLayers(graph);
    const rest = { perState: statesOf(graph), receiveBuffers: undefined, rank: undefined };
    return [{ memory: scope, device: scope.device, graph, layers, blocks: whole, ...rest }];
  }
  const { logits } = graph;
  if (logits === undefined) refuse('gpus', 'an encoder is not split over several devices');
  const over = { memory, options, graph: { ...graph, logits }, windows };
  return options.split === 'tensor' ? shards(over) : layerStages(over, whole);
}

/** Parts of a model that is split over several devices. */
interface Split {
  readonly memory: readonly DeviceScope[];
  readonly options: LoadOptions;
  readonly graph: DecoderGraph;
  readonly windows: WindowedLayers | undefined;
}

function layerStages({ memory, options, graph, windows }: Split, whole: BlockBudget): readonly StageLoad[] {
  const devices = memory.map(({ device }) => device);
  const shares = options.shares ?? devices.map(({ isHost, freeBytes }) => (isHost ? 1 : freeBytes));
  if (shares.length !== devices.length) {
    throw new RocmForgeError('INVALID_OPTION', `${shares.length} shares of a model for ${devices.length} devices`, {
      option: 'tensor-split',
    });
  }
  const isReached =
    options.throughHost !== true &&
    devices.every((device, i) => reaches(device, devices[(i + 1) % devices.length] as Device));
  return cutGraph(graph, shares).map((part, i) => {
    const layers = kvLayers(part);
    const own = windows && { ...windows, layers: new Set([...windows.layers].filter((layer) => layers.has(layer))) };
    const budget = (granted: LoadOptions) => new BlockBudget(granted, layers, own);
    // Each device gets the share of the total that its layers take.
    const kvMemoryBytes = Math.ceil((options.kvMemoryBytes * budget(options).expectedBytes) / whole.expectedBytes);
    const scope = memory[i] as DeviceScope;
    return {
      memory: scope,
      device: scope.device,
      graph: part,
      layers,
      blocks: budget({ ...options, kvMemoryBytes }),
      perState: statesOf(part),
      receiveBuffers: isReached ? (i === 0 ? TOKEN_MESSAGES : RESIDUAL_MESSAGES) : 0,
      rank: undefined,
    };
  });
}

function shards({ memory, options, graph, windows }: Split): readonly StageLoad[] {
  const devices = memory.map(({ device }) => device);
  const ranks = RANK_COUNTS.find((count) => count === devices.length);
  if (ranks === undefined) {
    const counts = `${RANK_COUNTS.slice(0, -1).join(', ')} or ${RANK_COUNTS.at(-1)}`;
    refuse('gpus', `--split tensor is over ${counts} devices, not over ${devices.length}`);
  }
  if (options.shares !== undefined) refuse('tensor-split', 'the devices of --split tensor have equal parts');
  for (const device of devices) {
    const other = devices.find((one) => one !== device && !reaches(device, one));
    if (other === undefined) continue;
    const pair = `${device.description} does not reach the memory of ${other.description}`;
    refuse('split', `--split tensor sums up in the memory of its devices, and ${pair}; take --split layer`);
  }
  return memory.map((scope, i) => {
    const rank = { rank: i, ranks: ranks as RankCount };
    const part = shardGraph(graph, rank);
    const layers = kvLayers(part);
    // Heads of keys and values that several have are each one's own.
    const kvMemoryBytes = Math.ceil(options.kvMemoryBytes / devices.length);
    return {
      memory: scope,
      device: scope.device,
      graph: part,
      layers,
      blocks: new BlockBudget({ ...options, kvMemoryBytes }, layers, windows),
      perState: 0,
      receiveBuffers: undefined,
      rank,
    };
  });
}

/** Shared memory of the devices of a tensor split, allocated in a scope of each; empty for other splits. */
export function rankPlaces(
  stages: readonly StageLoad[],
  within: readonly DeviceScope[],
  limits: Limits,
  model: ServableModel,
): readonly (RankPlace | undefined)[] {
  const memories = stages.flatMap(({ rank, graph }, i) =>
    rank === undefined ? [] : [rankMemory(within[i] as DeviceScope, graph, limits, model, rank)],
  );
  return stages.map(({ rank }) => rank && { ...rank, memories });
}

const statesOf = (graph: StageGraph): number => stateBytes([...valuesOf(graph)].filter(isRecurrent));

function refuse(option: string, message: string): never {
  throw new RocmForgeError('INVALID_OPTION', message, { option });
}
