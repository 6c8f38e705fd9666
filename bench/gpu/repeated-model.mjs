// A model of more layers than its file has: they are the file's in turn. What it takes on a GPU, and what is computed, is of a
// model that deep, of which no disk has to hold more than a few layers.
import { loadModel, loadOpened } from '../../dist/executor/load/loaded-model.js';
import { MappedModel } from '../../dist/executor/model/mapped-model.js';
import { GgufMetadata } from '../../dist/lib/gguf/metadata.js';
import { ModelFiles } from '../../dist/lib/gguf/model-files.js';

/** @param layers 0: as many as the file has */
export async function loadRepeated(devices, options, layers) {
  if (layers === 0) return loadModel(devices, options, () => undefined);
  const files = new ModelFiles(options.path);
  const content = new MappedModel(files.parts);
  const { model } = files;
  const architecture = model.metadata.get('general.architecture');
  const key = `${architecture}.block_count`;
  const own = model.metadata.get(key);
  const tensors = new Map();
  for (const [name, tensor] of model.tensors) if (!name.startsWith('blk.')) tensors.set(name, tensor);
  for (let layer = 0; layer < layers; layer++) {
    const from = `blk.${layer % own}.`;
    for (const [name, tensor] of model.tensors) {
      if (!name.startsWith(from)) continue;
      const repeated = `blk.${layer}.${name.slice(from.length)}`;
      tensors.set(repeated, { ...tensor, name: repeated });
    }
  }
  const metadata = new GgufMetadata(new Map([...model.metadata, [key, layers]]), model.name);
  const opened = { model: { ...model, name: model.name, metadata, tensors }, content, fingerprint: files.identity() };
  return loadOpened(devices, opened, options, () => undefined);
}
