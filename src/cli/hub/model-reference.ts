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

/** Whether a model is named by its place on a hub. A file of such a path is named with `./` before it. */
export function isModelReference(model: string): boolean {
  return PREFIX.test(model);
}

/**
 * Reads `hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]`.
 *
 * @throws RocmForgeError `INVALID_OPTION` for what is no such name
 */
export function parseModelReference(model: string): ModelReference {
  const rest = model.replace(PREFIX, '');
  const match = /^([^/@:]+)\/([^/@:]+)(?:@([^:]+))?(?::(.+))?$/.exec(rest);
  if (!PREFIX.test(model) || match === null) throw refused(model, `it is not of the form ${FORM}`);
  const [, owner = '', repository = '', revision = 'main', quantization] = match;
  for (const name of [owner, repository]) {
    if (!NAME.test(name)) throw refused(model, `"${name}" is no name that a hub gives`);
  }
  if (!REVISION.test(revision) || revision.includes('..') || revision.length > MAX_REVISION_CHARACTERS) {
    throw refused(model, `"${revision}" is no branch, tag or commit`);
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
  new RocmForgeError('INVALID_OPTION', `${JSON.stringify(model)} names no model on a hub: ${why}`);
