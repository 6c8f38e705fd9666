import { basename } from 'node:path';
import { ModelFiles } from '../../lib/gguf/model-files.js';
import type { GgufModel } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { Device, DeviceScope } from '../device/device.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import type { AttentionSplits } from '../layers/paged-attention.js';
import { MappedModel, type ModelContent } from '../model/mapped-model.js';
import type { ModelGraph } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import type { BlockChecksums } from '../parallel/block-checksums.js';
import type { BlockCopies } from '../parallel/block-copies.js';
import type { ModelDevices } from '../parallel/model-devices.js';
import type { LoadOptions } from './load-options.js';
import { ModelLoader } from './model-loader.js';
import type { StepGraphs } from './step-graphs.js';

/** The block of a model that predicts further tokens. */
export interface Prediction {
  readonly forward: ForwardPass;
  readonly plan: number;
}

/** A model whose plan is recorded: ready to run steps. */
export interface LoadedModel {
  readonly options: LoadOptions;
  readonly architecture: string;
  /** The model's content identity. */
  readonly fingerprint: string;
  /** 64 bits, of all bytes of tensors that were read for it; see `TensorReader.checksum`. */
  readonly contentChecksum: bigint;
  readonly parameters: number;
  readonly weightBytes: number;
  /** Number of recurrent states, including those of snapshots. */
  readonly stateBytes: number;
  /** Bytes of the KV cache on all devices. */
  readonly kvBytes: number;
  readonly graph: ModelGraph;
  /** Forward pass of the last stage, which samples; the only one if the model is not split. */
  readonly forward: ForwardPass;
  readonly plan: number;
  /** Prediction block, and its plan; undefined: none is loaded. */
  readonly prediction?: Prediction | undefined;
  /** All stages. */
  readonly pipeline: ModelDevices;
  /** Split of contexts by attention, on every stage; undefined if it does not split. */
  readonly splits: AttentionSplits | undefined;
  /** True if another executor fits on the devices beside this one. */
  readonly hasRoomForSpare: boolean;
  /** Allocations of weights that were damaged in kept memory and loaded again. */
  readonly restoredWeights: number;
  /** Layers, the last that have any, whose routed experts are in the host's memory; 0 on the host, where all are. */
  readonly cpuExperts: number;
  /** Host device that computes for the GPU; undefined where it computes nothing. */
  readonly hostDevice?: Device | undefined;
  /** Kept because the plan's pointers lead into their mapping. */
  readonly weights: Weights;
  readonly checksums: BlockChecksums;
  /** Undefined: no frame may ask for copies. */
  readonly copies: BlockCopies | undefined;
  /** Empty on the host. */
  readonly graphs: StepGraphs;
  /** Milliseconds in which the load captured all graphs; undefined if it left them to later. */
  readonly captureMs: number | undefined;
  /**
   * Checks weights in memory that an executor before this one may have damaged since they were loaded.
   *
   * @throws RocmForgeError `EXECUTOR_UNAVAILABLE`: another executor is to load the model
   */
  checkWeights(): Promise<void>;
  /** Gives back everything on the devices. It must not run again. */
  release(): void;
}

/** Devices of a model: one, or several of one kind with a stage of layers each. */
export type Devices = Device | readonly Device[];

/**
 * Loads a model from its GGUF file, or its parts, and records its launch plan. A load that fails leaves nothing on a device.
 *
 * @throws RocmForgeError with the reason of the first thing that does not fit: file, architecture, tensor, memory
 */
export async function loadModel(
  devices: Devices,
  options: LoadOptions,
  onProgress: (done: number, total: number) => void,
): Promise<LoadedModel> {
  const { path, openPaths } = options;
  // Tokens are the gateway's.
  const files = new ModelFiles(path, openPaths, true);
  let mapping: MappedModel | undefined;
  try {
    // Whoever writes to it from now on is noticed: what is told of the content below holds for what is loaded.
    mapping = new MappedModel(files.parts);
    const fingerprint = files.identity();
    if (options.fingerprint !== '' && options.fingerprint !== fingerprint) {
      throw new RocmForgeError(
        'MODEL_FILE_CHANGED',
        `the model file ${basename(path)} is not the file that the gateway reads, or not any more: their contents differ`,
      );
    }
    const opened = { model: files.model, content: mapping, fingerprint };
    const loaded = await loadOpened(devices, opened, options, onProgress);
    // A GPU has copies. Mapped pages would delay the end of this process, and the executor that takes over.
    if (!loaded.weights.readsFile) await mapping.dropPages();
    return loaded;
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
  /** Mapping of its tensors; it ends with the loaded model. */
  readonly content: ModelContent;
  readonly fingerprint: string;
}

/** Loads a model whose headers were read. A load that fails leaves nothing on a device. */
export async function loadOpened(
  devices: Devices,
  opened: OpenedModel,
  options: LoadOptions,
  onProgress: (done: number, total: number) => void,
): Promise<LoadedModel> {
  const memory = (devices instanceof Device ? [devices] : devices).map((device) => new DeviceScope(device));
  try {
    return await new ModelLoader(memory, opened, options).load(onProgress);
  } catch (error) {
    for (const scope of memory) {
      try {
        scope.release();
      } catch {
        // A device that cannot even free is lost; why the load failed is what matters.
      }
    }
    // Sizes that contracts state; these come from the file.
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
