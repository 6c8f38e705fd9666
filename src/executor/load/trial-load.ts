import type { ModelPart } from '../../lib/gguf/model-files.js';
import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { readServableModel } from '../../lib/gguf/servable-model.js';
import type { Device } from '../device/device.js';
import { MappedModel, type ModelContent } from '../model/mapped-model.js';
import { WeightPlaces } from '../model/weight-places.js';
import { readGraph } from '../models/index.js';
import { UNREAD } from './counting-device.js';
import { emptyDevice } from './fit.js';
import type { LoadOptions } from './load-options.js';
import { type LoadedModel, loadOpened } from './loaded-model.js';
import { tensorsOnHost } from './placement.js';

/** Largest tensor that is brought: norms, biases and routers are smaller. */
const MOST_BROUGHT_BYTES = 16 << 20;
/** Least address of mapped memory. Lower ones are offsets in a tensor that has no address. */
const LEAST_ADDRESS = 2 ** 40;
/**
 * Matrices of experts in host memory that are read for all of one type and size: together larger than a processor's cache, and few, so that
 * a trial takes seconds where the file is on a disk.
 */
const DISTINCT_MATRICES = 4;

/**
 * Loads a model as far as the time of a step depends on it. Matrices on the GPU take their room and are zeros. The token embedding, norms and
 * routers are brought, so that tokens are sent to different experts. Experts in host memory are those of a few layers.
 *
 * @param device a GPU; what the load takes of it is given back with the model
 * @param options `cpuExperts` as a load on it was granted
 * @throws RocmForgeError of the loader
 */
export async function loadForTrial(
  device: Device,
  parts: readonly ModelPart[],
  model: GgufModel,
  options: LoadOptions & { readonly cpuExperts: number },
): Promise<LoadedModel> {
  const graph = readGraph(model, readServableModel(model));
  const onHost = tensorsOnHost(graph, options.cpuExperts);
  const empty = emptyDevice(device, (hostAddress) => hostAddress >= LEAST_ADDRESS);
  const places = new WeightPlaces(empty, graph, onHost);
  const mapped = new MappedModel(parts);
  const shown = shownMatrices(onHost);
  const isBrought = (tensor: GgufTensor): boolean =>
    tensor === graph.embedding?.tensor ||
    (tensor.bytes <= MOST_BROUGHT_BYTES && places.packedBytes(tensor) === undefined);
  const content: ModelContent = {
    ...UNREAD,
    address: (tensor) => {
      const matrix = shown.get(tensor);
      if (matrix !== undefined) return mapped.address(matrix);
      return isBrought(tensor) ? mapped.address(tensor) : UNREAD.address(tensor);
    },
    read: async (tensor, from, bytes) => {
      const isRead = onHost.has(tensor) ? shown.get(tensor) === tensor : isBrought(tensor);
      return isRead ? mapped.read(tensor, from, bytes) : 0n;
    },
    close: () => mapped.close(),
  };
  try {
    return await loadOpened(empty, { model, content, fingerprint: '' }, options, () => undefined);
  } catch (error) {
    mapped.close();
    throw error;
  }
}

/** Matrices that are multiplied in place of matrices in host memory: the first few of each type and size. */
function shownMatrices(onHost: ReadonlySet<GgufTensor>): ReadonlyMap<GgufTensor, GgufTensor> {
  const alike = new Map<string, GgufTensor[]>();
  const shown = new Map<GgufTensor, GgufTensor>();
  for (const tensor of onHost) {
    const key = `${tensor.type} ${tensor.dims.join()}`;
    const all = alike.get(key) ?? [];
    alike.set(key, all);
    all.push(tensor);
    shown.set(tensor, all[(all.length - 1) % DISTINCT_MATRICES] as GgufTensor);
  }
  return shown;
}
