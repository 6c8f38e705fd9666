import type { ListFileEntry } from '@huggingface/hub';
import { asRocmForgeError, typedError } from '../../shared/errors.js';
import { type HubRequests, protocolError } from './hub-requests.js';
import type { HubSettings } from './hub-settings.js';
import { type ModelReference, repositoryOf } from './model-reference.js';
import type { Digest, HubFile } from './quantizations.js';

/** Files of a repository at one commit. */
export interface HubListing {
  /** 40 hex digits. */
  readonly commit: string;
  readonly files: readonly HubFile[];
}

const MOST_FILES = 20_000;
const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;
/** A plain name: no folder above, nothing hidden, nothing that a terminal takes for a command. */
const PART = /^[^./\\\p{C}][^/\\\p{C}]*$/u;

/**
 * Asks a hub what a repository holds. `@huggingface/hub` knows its addresses and pages; what it gives is not believed before it
 * was looked at, since names and sums of it become paths.
 *
 * @throws RocmForgeError of {@link HubRequests}
 */
export async function listRepository(
  reference: ModelReference,
  settings: HubSettings,
  requests: HubRequests,
): Promise<HubListing> {
  const { listFiles, modelInfo } = await import('@huggingface/hub');
  const name = repositoryOf(reference);
  // No token for the library, which takes only those of one form: the requests carry it.
  const common = { hubUrl: settings.endpoint, fetch: requests.fetch };
  try {
    const { sha: commit } = await modelInfo({
      ...common,
      name,
      revision: reference.revision,
      additionalFields: ['sha'],
    });
    if (typeof commit !== 'string' || !COMMIT.test(commit)) throw protocolError(`${name} has no commit`);
    const files: HubFile[] = [];
    for await (const entry of listFiles({
      ...common,
      repo: { type: 'model', name },
      revision: commit,
      recursive: true,
    })) {
      if (entry.type !== 'file' || typeof entry.path !== 'string' || !/\.gguf$/i.test(entry.path)) continue;
      // Nothing hidden, such as what macOS leaves beside files, and nothing empty is a model.
      if (entry.path.split('/').some((part) => /^\.[^.]/.test(part)) || (entry.lfs?.size ?? entry.size) === 0) continue;
      files.push(checked(entry));
      if (files.length > MOST_FILES) throw protocolError(`${name} holds more than ${MOST_FILES} models`);
    }
    return { commit, files };
  } catch (error) {
    // The library throws what it stumbles over in an answer.
    if (typedError(error) !== undefined) throw error;
    throw protocolError(`its answer about ${name} is none: ${asRocmForgeError(error).message}`);
  }
}

function checked({ path, size, oid, lfs }: ListFileEntry): HubFile {
  if (!path.split('/').every((part) => PART.test(part))) {
    throw protocolError(`it lists a file of the path ${JSON.stringify(path)}`);
  }
  const bytes = lfs?.size ?? size;
  const digest: Digest =
    lfs === undefined ? { kind: 'git-sha1', hex: String(oid) } : { kind: 'sha256', hex: String(lfs.oid) };
  const isDigest = (digest.kind === 'sha256' ? SHA256 : COMMIT).test(digest.hex);
  if (!isDigest || !Number.isSafeInteger(bytes) || bytes < 0) {
    throw protocolError(`its listing has no size and checksum of ${path}`);
  }
  return { path, bytes, digest };
}
