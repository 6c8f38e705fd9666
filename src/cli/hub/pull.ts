import { RocmForgeError } from '../../shared/errors.js';
import { formatBytes } from '../common/bytes.js';
import { writeNotice } from '../common/output.js';
import { alignColumns } from '../inspect/inspect.js';
import { diskError, downloadBlob } from './blob-download.js';
import { CachedRepository } from './hub-cache.js';
import { type HubListing, listRepository } from './hub-listing.js';
import { HUB_PATIENCE, type HubPatience, HubRequests } from './hub-requests.js';
import { type HubSettings, hubSettings } from './hub-settings.js';
import {
  hubNameFor,
  isModelReference,
  type ModelReference,
  parseModelReference,
  repositoryOf,
} from './model-reference.js';
import { chosen, type HubFile, type Quantization, quantizationsOf } from './quantizations.js';
import { type TransferProgress, transferProgress } from './transfer-progress.js';

/** A model that lies in the cache as a whole. */
export interface PulledModel {
  /** Path of its file, or of the first of its parts; the others lie next to it. */
  readonly path: string;
  readonly quantization: string;
  readonly commit: string;
  readonly bytes: number;
  /** True if nothing had to come over the network. */
  readonly wasHere: boolean;
}

export interface PullOptions {
  readonly settings?: HubSettings;
  readonly patience?: HubPatience;
  /** Told what is waited for, a line each; default: stderr. */
  readonly notice?: (text: string) => void;
  /** Is given the bytes that are there, of all files; default: a bar or lines on stderr. */
  readonly progress?: (done: number, total: number) => void;
}

/**
 * Brings a model of a hub into the cache that Python shares, and says where it lies. Where the hub does not answer, or may not be
 * asked, what was pulled before is as good.
 *
 * @param name `hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]`
 * @throws RocmForgeError `INVALID_OPTION`, `MODEL_NOT_FOUND`, `HUB_OFFLINE`, `HUB_REFUSED`, `HUB_BUSY`, `HUB_UNAVAILABLE`,
 *   `HUB_PROTOCOL`, `CHECKSUM_MISMATCH`, `DISK_FULL`
 */
export async function pullModel(name: string, options: PullOptions = {}): Promise<PulledModel> {
  const reference = parseModelReference(name);
  const { settings, requests, notice } = openedHub(options);
  const cache = new CachedRepository(settings.cacheFolder, reference);
  if (settings.offline) return fromCache(reference, cache);
  let listing: HubListing;
  try {
    listing = await listRepository(reference, settings, requests);
  } catch (error) {
    if (!(error instanceof RocmForgeError && ['HUB_UNAVAILABLE', 'HUB_BUSY'].includes(error.reason))) throw error;
    try {
      const kept = fromCache(reference, cache);
      notice(`${error.message}; taking what was pulled before, commit ${kept.commit}`);
      return kept;
    } catch {
      throw error;
    }
  }
  const model = chosen(reference, quantizationsOf(listing.files));
  const found = cache.found();
  // Nothing is written where all is here: the cache may be somebody else's, or be mounted to be read.
  const isHere = (file: HubFile) =>
    cache.has(file) && found?.files.some(({ path, bytes }) => path === file.path && bytes === file.bytes);
  if (found?.commit === listing.commit && model.files.every(isHere)) {
    return { ...described(model, listing.commit, cache), wasHere: true };
  }
  try {
    const { progress } = options;
    return await fetchModel(reference, model, listing.commit, { settings, requests, cache, notice, progress });
  } catch (error) {
    throw diskError(error, settings.cacheFolder);
  }
}

/** Models of a repository, smallest first. @throws RocmForgeError of {@link pullModel} */
export async function listModels(name: string, options: PullOptions = {}): Promise<readonly Quantization[]> {
  const reference = parseModelReference(name);
  const { settings, requests } = openedHub(options);
  if (settings.offline) {
    return quantizationsOf(new CachedRepository(settings.cacheFolder, reference).found()?.files ?? []);
  }
  return quantizationsOf((await listRepository(reference, settings, requests)).files);
}

/** A table for people: each model, its size, and what its weights leave of each GPU. Ends with a newline. */
export function formatModels(models: readonly Quantization[], gpus: readonly Room[]): string {
  const rows = models.map(({ name, bytes, files }): [string, string] => [
    name,
    [
      `${formatBytes(bytes)}${files.length > 1 ? ` in ${files.length} parts` : ''}`,
      ...gpus.map(({ description, freeBytes }) =>
        bytes <= freeBytes
          ? `leaves ${formatBytes(freeBytes - bytes)} of ${description}`
          : `${formatBytes(bytes - freeBytes)} more than ${description} has free`,
      ),
    ].join(', '),
  ]);
  return `${alignColumns(rows).join('\n')}\n`;
}

/** Somewhere weights may go. */
export interface Room {
  readonly description: string;
  readonly freeBytes: number;
}

/**
 * The path of a model that a command names; one on a hub is downloaded first.
 *
 * @throws RocmForgeError of {@link pullModel}; `MODEL_FILE_UNREADABLE` for a repository's name without `hf.co/`
 */
export async function localModel(model: string): Promise<string> {
  const meant = hubNameFor(model);
  if (meant !== undefined) {
    throw new RocmForgeError(
      'MODEL_FILE_UNREADABLE',
      `there is no file ${model}; for a model of Hugging Face’s hub give --model ${meant}`,
    );
  }
  return isModelReference(model) ? (await pullModel(model)).path : model;
}

/** Settings, and what requests are sent with. */
export function openedHub(options: PullOptions) {
  const settings = options.settings ?? hubSettings();
  const notice = options.notice ?? ((text: string) => writeNotice(`${text}\n`));
  return { settings, notice, requests: new HubRequests(settings, options.patience ?? HUB_PATIENCE, notice) };
}

function fromCache(reference: ModelReference, cache: CachedRepository): PulledModel {
  const found = cache.found();
  const models = quantizationsOf(found?.files ?? []);
  if (found === undefined || models.length === 0) {
    throw new RocmForgeError(
      'HUB_OFFLINE',
      `nothing whole of ${repositoryOf(reference)} at ${reference.revision} lies in the cache; pull it while a hub is reachable`,
    );
  }
  const model = chosen(reference, models);
  return { ...described(model, found.commit, cache), wasHere: true };
}

interface Means {
  readonly settings: HubSettings;
  readonly requests: HubRequests;
  readonly cache: CachedRepository;
  readonly notice: (text: string) => void;
  readonly progress?: PullOptions['progress'];
}

async function fetchModel(
  reference: ModelReference,
  model: Quantization,
  commit: string,
  { settings, requests, cache, notice, progress: report }: Means,
): Promise<PulledModel> {
  await cache.prepare();
  const wasHere = model.files.every((file) => cache.has(file));
  const progress: TransferProgress = report
    ? { at: (bytes) => report(bytes, model.bytes), end: () => undefined }
    : transferProgress(model.bytes);
  let before = 0;
  for (const file of model.files) {
    const waits = () => notice(`another process is pulling ${file.path}; waiting for it`);
    await cache.locked(
      file,
      async () => {
        if (!cache.has(file)) {
          await downloadBlob(
            {
              url: addressOf(settings, reference, commit, file.path),
              file,
              incomplete: cache.incomplete(file),
              blob: cache.blob(file),
              progress: (bytes) => progress.at(before + bytes),
            },
            requests,
          );
        }
        await cache.point(commit, file);
      },
      waits,
    );
    before += file.bytes;
  }
  if (!wasHere) progress.end();
  // Last: who finds the reference finds all of what it leads to.
  await cache.refer(commit);
  return { ...described(model, commit, cache), wasHere };
}

function described({ name, bytes, files: [first] }: Quantization, commit: string, cache: CachedRepository) {
  return { path: cache.pointer(commit, first?.path ?? ''), quantization: name, commit, bytes };
}

/** Address of a file of a commit. */
export function addressOf({ endpoint }: HubSettings, reference: ModelReference, commit: string, file: string): string {
  const name = file.split('/').map(encodeURIComponent).join('/');
  return `${endpoint}/${repositoryOf(reference)}/resolve/${commit}/${name}`;
}
