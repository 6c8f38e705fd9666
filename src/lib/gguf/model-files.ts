import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { type ByteSource, FileByteSource } from './byte-source.js';
import { contentIdentity } from './content-identity.js';
import { GgufError } from './error.js';
import { type GgufFile, type GgufModel, type GgufTensor, readGguf } from './reader.js';
import { checkPart, partPaths, splitOf } from './split.js';

/** One of a model's files, open. */
export interface ModelPart<Source extends ByteSource = FileByteSource> {
  readonly source: Source;
  readonly file: GgufFile;
}

/** Headers of a model's files: one, or the parts of a split model in their order. */
export interface ModelHeaders<Source extends ByteSource = ByteSource> {
  readonly parts: readonly ModelPart<Source>[];
  /** Their headers, joined. */
  readonly model: GgufModel;
}

/**
 * Reads the headers of a model's files.
 *
 * @param path of the model, or of the first part of a split one; the others lie beside it
 * @param open gives the bytes of a file; called once a file, in the order of the parts
 * @param expectedParts how many there must be; default: as many as the first says
 * @param skipsTokens as {@link readGguf} has it
 * @throws GgufError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID`; `INVALID_OPTION` when the path is of another part;
 *   `MODEL_FILE_CHANGED` when there are not as many parts as expected
 */
export function readModelHeaders<Source extends ByteSource>(
  path: string,
  open: (name: string) => Source,
  expectedParts?: number,
  skipsTokens = false,
): ModelHeaders<Source> {
  const parts: ModelPart<Source>[] = [];
  const read = (name: string): GgufFile => {
    const source = open(name);
    const file = readGguf(source, skipsTokens);
    parts.push({ source, file });
    return file;
  };
  const first = read(path);
  const paths = partPaths(first);
  if (expectedParts !== undefined && expectedParts !== paths.length) {
    throw new GgufError(
      'MODEL_FILE_CHANGED',
      `the model file ${basename(path)} is in ${paths.length} parts now, and was in ${expectedParts} when it was opened`,
    );
  }
  for (const [index, name] of paths.entries()) {
    if (index === 0) continue;
    const file = asPart(index, first, paths.length, () => read(name));
    checkPart(file, index, first);
  }
  return { parts, model: parts.length === 1 ? first : joined(parts.map(({ file }) => file)) };
}

/** The files of a model, open: one, or the parts of a split model in their order. */
export class ModelFiles implements ModelHeaders<FileByteSource> {
  readonly parts: readonly ModelPart[];
  readonly model: GgufModel;
  private readonly sources: FileByteSource[] = [];

  /**
   * Opens a model and reads its headers. When it throws, nothing stays open.
   *
   * @param path of the model, or of the first part of a split one; the others lie beside it
   * @param openPaths where to open each of its files, when that is not its path: descriptors that were handed down
   * @param skipsTokens as {@link readGguf} has it
   * @throws GgufError of {@link readModelHeaders}
   */
  constructor(path: string, openPaths?: readonly string[], skipsTokens = false) {
    const open = (name: string): FileByteSource => {
      const source = new FileByteSource(openPaths?.[this.sources.length] ?? name, name);
      this.sources.push(source);
      return source;
    };
    try {
      ({ parts: this.parts, model: this.model } = readModelHeaders(path, open, openPaths?.length, skipsTokens));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** See {@link contentIdentity}. @throws GgufError `MODEL_FILE_UNREADABLE` */
  identity(): string {
    return contentIdentity(this.parts);
  }

  close(): void {
    for (const source of this.sources) source.close();
  }
}

/** Says of a file that cannot be read why it is wanted. */
function asPart(index: number, first: GgufFile, count: number, open: () => GgufFile): GgufFile {
  try {
    return open();
  } catch (error) {
    if (!(error instanceof GgufError && error.reason === 'MODEL_FILE_UNREADABLE')) throw error;
    const why = `it is part ${index + 1} of the ${count} of ${first.name}`;
    throw new GgufError(error.reason, `${error.message}; ${why}`, {}, { cause: error });
  }
}

/** The parts as one model: the first one's metadata, and the tensors of all. */
function joined(files: readonly GgufFile[]): GgufModel {
  const [first] = files as readonly [GgufFile, ...GgufFile[]];
  const tensors = new Map<string, GgufTensor>();
  for (const [part, file] of files.entries()) {
    for (const tensor of file.tensors.values()) {
      const other = tensors.get(tensor.name);
      if (other !== undefined) {
        const where = (files[other.part] as GgufFile).name;
        const problem = `tensor ${JSON.stringify(tensor.name)} is in ${where}, too; each is in one part of a split model`;
        throw new GgufError('GGUF_INVALID', `${file.name}: ${problem}`, { tensor: tensor.name });
      }
      tensors.set(tensor.name, { ...tensor, part });
    }
  }
  const expected = splitOf(first)?.tensors;
  if (tensors.size !== expected) {
    const key = 'split.tensors.count';
    const problem = `is ${expected}, but its ${files.length} parts hold ${tensors.size} tensors`;
    throw new GgufError('GGUF_INVALID', `${first.name}: metadata key "${key}" ${problem}`, { key });
  }
  const fingerprint = createHash('sha256');
  for (const file of files) fingerprint.update(file.fingerprint);
  return {
    name: first.name,
    metadata: first.metadata,
    tensors,
    size: files.reduce((sum, { size }) => sum + size, 0),
    fingerprint: fingerprint.digest('hex'),
  };
}
