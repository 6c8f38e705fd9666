import type { ByteSource } from '../../lib/gguf/byte-source.js';
import { ModelFiles, type ModelHeaders, readModelHeaders } from '../../lib/gguf/model-files.js';
import { RocmForgeError } from '../../shared/errors.js';
import { listRepository } from './hub-listing.js';
import { readRange } from './hub-ranges.js';
import type { HubRequests } from './hub-requests.js';
import { parseModelReference, repositoryOf } from './model-reference.js';
import { addressOf, openedHub, type PullOptions, pullModel } from './pull.js';
import { chosen, type HubFile, quantizationsOf } from './quantizations.js';

/** Bytes of the first request to a model's first file, whose vocabulary is some megabytes, and to its other parts. */
const FIRST_PART_BYTES = 2 << 20;
const OTHER_PART_BYTES = 256 << 10;
/** Least of a range behind the header. */
const LEAST_RANGE_BYTES = 4 << 10;
/** Limit of all ranges of a model. A header may have 128 MiB; those of parts but the first are small. */
const MOST_BYTES = 160 << 20;

/**
 * Computes something of a hub's model by the headers of its files, without its weights.
 *
 * @param name `hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]`
 * @param compute is called again, from its beginning, while it reads bytes that were not fetched before
 * @throws RocmForgeError of {@link pullModel}, of the reader and of `compute`; `GGUF_INVALID` for headers beyond all sizes
 */
export async function withRemoteHeaders<Result>(
  name: string,
  compute: (headers: ModelHeaders) => Result | Promise<Result>,
  options: PullOptions = {},
): Promise<Result> {
  const reference = parseModelReference(name);
  const { settings, requests } = openedHub(options);
  if (settings.offline) return withPulledHeaders((await pullModel(name, options)).path, compute);
  const { commit, files } = await listRepository(reference, settings, requests);
  const model = chosen(reference, quantizationsOf(files));
  const budget = { bytes: MOST_BYTES };
  const sources = model.files.map((file, index) => {
    const label = `${repositoryOf(reference)}/${file.path}`;
    const url = addressOf(settings, reference, commit, file.path);
    return new RemoteByteSource(label, file, url, index === 0 ? FIRST_PART_BYTES : OTHER_PART_BYTES, budget);
  });
  const [first] = sources as [RemoteByteSource];
  const open = (label: string): RemoteByteSource => {
    const source = sources.find((candidate) => candidate.name === label);
    if (source !== undefined) return source;
    throw new RocmForgeError('MODEL_FILE_UNREADABLE', `${label} is not in the repository`);
  };
  for (;;) {
    try {
      return await compute(readModelHeaders(first.name, open));
    } catch (error) {
      if (!(error instanceof MissingBytes)) throw error;
      await error.source.fetch(error.offset, error.length, requests);
    }
  }
}

async function withPulledHeaders<Result>(
  path: string,
  compute: (headers: ModelHeaders) => Result | Promise<Result>,
): Promise<Result> {
  const files = new ModelFiles(path);
  try {
    return await compute(files);
  } finally {
    files.close();
  }
}

/** A read of bytes that are not here yet. Not a RocmForgeError: nothing on the way reports it as one. */
class MissingBytes extends Error {
  constructor(
    readonly source: RemoteByteSource,
    readonly offset: number,
    readonly length: number,
  ) {
    super(`${source.name}: bytes ${offset} to ${offset + length} were not fetched`);
  }
}

/** The bytes of a hub's file that were fetched: its beginning, and ranges behind it. */
class RemoteByteSource implements ByteSource {
  readonly size: number;
  private head = Buffer.alloc(0);
  private readonly ranges: { readonly offset: number; readonly bytes: Buffer }[] = [];

  constructor(
    readonly name: string,
    private readonly file: HubFile,
    private readonly url: string,
    private readonly firstBytes: number,
    /** Left of all files together. */
    private readonly budget: { bytes: number },
  ) {
    this.size = file.bytes;
  }

  /** @throws MissingBytes */
  read(offset: number, length: number): Uint8Array {
    if (offset < 0 || length < 0 || offset + length > this.size) {
      throw new RangeError(`${this.name}: bytes ${offset}..${offset + length} are outside of ${this.size} bytes`);
    }
    for (const { offset: start, bytes } of [{ offset: 0, bytes: this.head }, ...this.ranges]) {
      if (offset < start || offset + length > start + bytes.length) continue;
      return bytes.subarray(offset - start, offset - start + length);
    }
    throw new MissingBytes(this, offset, length);
  }

  /** Fetches what a read lacks. The beginning doubles, so that a header of any size takes few requests. */
  async fetch(offset: number, length: number, requests: HubRequests): Promise<void> {
    const have = this.head.length;
    const isHead = offset <= have;
    const start = isHead ? have : offset;
    const least = isHead ? Math.max(have, this.firstBytes) : LEAST_RANGE_BYTES;
    const end = Math.min(Math.max(offset + length, start + least), this.size);
    this.budget.bytes -= end - start;
    if (this.budget.bytes < 0) {
      throw new RocmForgeError('GGUF_INVALID', `${this.name}: its headers have more than ${MOST_BYTES >> 20} MiB`);
    }
    const bytes = await readRange(this.url, this.file, { first: start, last: end - 1 }, requests);
    if (isHead) this.head = Buffer.concat([this.head, bytes]);
    else this.ranges.push({ offset: start, bytes });
  }
}
