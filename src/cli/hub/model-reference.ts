import { existsSync } from 'node:fs';
import { RocmForgeError } from '../../shared/errors.js';

/** A model on a hub, as a command names it. Nothing in it can leave the folder or the address that it is made part of. */
export interface ModelReference {
  readonly owner: string;
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** The quantization's name or a file's path; absent: the only one there is. */
  readonly quantization: string | undefined;
}

const PREFIX = /^(?:https:\/\/)?(?:hf\.co|huggingface\.co)\//;
/** As the hub takes them. Two hyphens part owner and name in the cache's folders. */
const NAME = /^(?!.*(?:--|\.\.))[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?$/;
const REVISION = /^[\w][\w.-]*(?:\/[\w][\w.-]*)*$/;
const QUANTIZATION = /^[\w][\w.-]*(?:\/[\w][\w.-]*)*$/;
const MAX_REVISION_CHARACTERS = 200;
const FORM = 'hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]';

/** True if a model is named as one on a hub. Write `./` before a file of such a path. */
export function isModelReference(model: string): boolean {
  return PREFIX.test(model);
}

/**
 * `hf.co/` before a name that looks like a repository of a hub and names no file, such as Qwen/Qwen3-0.6B-GGUF; undefined for all
 * else.
 */
export function hubNameFor(model: string): string | undefined {
  const looksLikeOne = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*(?:@[\w./-]+)?(?::[\w./-]+)?$/.test(model);
  return looksLikeOne && !PREFIX.test(model) && !model.endsWith('.gguf') && !existsSync(model)
    ? `hf.co/${model}`
    : undefined;
}

/**
 * Reads `hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]`.
 *
 * @throws RocmForgeError `INVALID_OPTION` for other texts
 */
export function parseModelReference(model: string): ModelReference {
  const rest = model.replace(PREFIX, '');
  const match = /^([^/@:]+)\/([^/@:]+)(?:@([^:]+))?(?::(.+))?$/.exec(rest);
  if (!PREFIX.test(model) || match === null) {
    const meant = hubNameFor(model);
    throw refused(model, meant === undefined ? `give ${FORM}` : `did you mean ${meant}?`);
  }
  const [, owner = '', repository = '', revision = 'main', quantization] = match;
  for (const name of [owner, repository]) {
    if (!NAME.test(name)) throw refused(model, `"${name}" is not a valid owner or repository name`);
  }
  if (!REVISION.test(revision) || revision.includes('..') || revision.length > MAX_REVISION_CHARACTERS) {
    throw refused(model, `"${revision}" is not a branch, tag or commit`);
  }
  if (quantization !== undefined && (!QUANTIZATION.test(quantization) || quantization.includes('..'))) {
    throw refused(model, `"${quantization}" is neither a quantization such as Q4_K_M nor a file of the repository`);
  }
  return { owner, repository, revision, quantization };
}

/** `OWNER/REPOSITORY`. */
export function repositoryOf({ owner, repository }: ModelReference): string {
  return `${owner}/${repository}`;
}

const refused = (model: string, why: string) =>
  new RocmForgeError('INVALID_OPTION', `${JSON.stringify(model)} is not a model on a hub: ${why}`);
