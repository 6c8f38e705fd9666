import type { Device, DeviceBuffer } from '../../executor/device/device.js';
import { DeviceScope } from '../../executor/device/device.js';
import { blockFormat, convert, embeddingGatherQuantized, isBlockType } from '../../executor/kernels/index.js';
import { LaunchPlanRecorder } from '../../executor/kernels/launch-plan.js';
import type { OpenedModel } from '../../executor/load/loaded-model.js';
import type { ModelContent } from '../../executor/model/mapped-model.js';
import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';

/** Elements that are unpacked at once. */
const PART_ELEMENTS = 1 << 24;
const F16_BYTES = 2;

/** Bytes of memory that {@link unquantized} takes; 0 for a model without quantized matrices. */
export function unquantizedBytes({ tensors }: GgufModel): number {
  return [...tensors.values()]
    .filter(({ type }) => isBlockType(type.toLowerCase()))
    .reduce((sum, tensor) => sum + F16_BYTES * elementsOf(tensor), 0);
}

const elementsOf = ({ dims }: GgufTensor): number => dims.reduce((product, size) => product * size, 1);

/**
 * A model whose quantized matrices are the f16 values that their blocks stand for, in the host's memory: 2 bytes a parameter. Products
 * of these round no activation, so that a device's own roundings are all that sets its logits apart.
 *
 * @param opened what it is made of; both end with the returned model's content
 * @throws RocmForgeError `OUT_OF_MEMORY`
 */
export async function unquantized(host: Device, { model, content, fingerprint }: OpenedModel): Promise<OpenedModel> {
  const memory = new DeviceScope(host);
  const unpacked = new Map<string, DeviceBuffer>();
  const tensors = new Map<string, GgufTensor>();
  for (const [name, tensor] of model.tensors) {
    const type = tensor.type.toLowerCase();
    if (!isBlockType(type)) {
      tensors.set(name, tensor);
      continue;
    }
    const elements = elementsOf(tensor);
    const buffer = memory.allocate('f16', elements);
    await unpack(memory, { type, columns: tensor.dims[0] ?? 1, address: content.address(tensor) }, buffer);
    unpacked.set(name, buffer);
    tensors.set(name, { ...tensor, type: 'F16', bytes: F16_BYTES * elements });
  }
  const twin: ModelContent = {
    address: (tensor) => unpacked.get(tensor.name)?.address ?? content.address(tensor),
    read: async (tensor, from, bytes) => (unpacked.has(tensor.name) ? 0n : content.read(tensor, from, bytes)),
    largest: content.largest,
    check: () => content.check(),
    close: () => {
      memory.release();
      content.close();
    },
  };
  return { model: { ...model, tensors }, content: twin, fingerprint };
}

/** Rows of blocks, as a table of embeddings is read. */
async function unpack(
  memory: DeviceScope,
  {
    type,
    columns,
    address,
  }: { type: Parameters<typeof embeddingGatherQuantized>[0]; columns: number; address: number },
  target: DeviceBuffer,
): Promise<void> {
  const scratch = memory.child();
  const { blockElements, blockBytes } = blockFormat(type);
  const [rows, blocks] = [target.elements / columns, columns / blockElements];
  const most = Math.min(rows, Math.max(1, Math.floor(PART_ELEMENTS / columns)));
  const values = scratch.allocate('f32', most * columns);
  const rowToken = scratch.upload(Int32Array.from({ length: most }, (_, row) => row));
  const nothing = scratch.upload(Int32Array.of(0));
  const rowBytes = blocks * blockBytes;
  for (let first = 0; first < rows; first += most) {
    const tokens = Math.min(most, rows - first);
    const table = { address: address + first * rowBytes, dtype: 'u8', elements: tokens * rowBytes } as const;
    const y = { ...target, address: target.address + F16_BYTES * first * columns, elements: tokens * columns };
    const x = { ...values, elements: tokens * columns };
    const recorder = new LaunchPlanRecorder(memory.device, 0);
    recorder.launch(
      embeddingGatherQuantized(type),
      { table, y: x, row_token: rowToken, row_slot: rowToken, slots: nothing, slot_words: 1, hidden: columns },
      { vocabulary: tokens, blocks, tokens, slot_count: 1 },
    );
    // As one row: a grid has fewer rows than a vocabulary.
    recorder.launch(convert('f16'), { x, y, in: tokens * columns }, { rows: 1 });
    await recorder.run();
  }
  scratch.release();
}
