import { RocmForgeError } from '../../shared/errors.js';
import { type ModelReference, repositoryOf } from './model-reference.js';

/** A file of a repository. */
export interface HubFile {
  /** In the repository, with slashes; every part is a plain name. */
  readonly path: string;
  readonly bytes: number;
  /** Hash of its content, which is also its name in the cache. */
  readonly digest: Digest;
}

/** Large files have a SHA-256, others the id that git gives them. */
export interface Digest {
  readonly kind: 'sha256' | 'git-sha1';
  readonly hex: string;
}

/** One model of a repository: a file, or all parts of a split one in their order. */
export interface Quantization {
  /** Such as `Q4_K_M`; the file's name where nothing in it says. */
  readonly name: string;
  readonly files: readonly HubFile[];
  readonly bytes: number;
}

const SPLIT = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i;
const TYPE = /(?:^|[-._])((?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|BF16|F16|FP16|F32|FP32|MXFP4(?:_MOE)?|NVFP4))$/i;
/** Files next to models that are none. */
const BESIDE = /(?:^|[/._-])(?:mmproj|imatrix)(?=[._-]|$)/i;

/**
 * The models among a repository's files, smallest first. A split one counts when all its parts are there.
 *
 * @param files in any order
 */
export function quantizationsOf(files: readonly HubFile[]): Quantization[] {
  const models = new Map<string, { files: HubFile[]; parts: number }>();
  for (const file of files) {
    if (!/\.gguf$/i.test(file.path) || BESIDE.test(file.path)) continue;
    const split = SPLIT.exec(file.path);
    const stem = split?.[1] ?? file.path.replace(/\.gguf$/i, '');
    const key = split === null ? file.path : `${stem}-of-${split[3]}`;
    const model = models.get(key) ?? { files: [], parts: Number(split?.[3] ?? 1) };
    models.set(key, model);
    model.files.push(file);
  }
  return [...models.values()]
    .filter(({ files: own, parts }) => own.length === parts && isWhole(own))
    .map(({ files: own }) => {
      const sorted = own.sort((a, b) => (a.path < b.path ? -1 : 1));
      return { name: nameOf(sorted), files: sorted, bytes: own.reduce((sum, { bytes }) => sum + bytes, 0) };
    })
    .sort((a, b) => a.bytes - b.bytes);
}

/**
 * The model that a reference means.
 *
 * @throws RocmForgeError `MODEL_NOT_FOUND` where there is none, `INVALID_OPTION` where there are several; both name them
 */
export function chosen(reference: ModelReference, all: readonly Quantization[]): Quantization {
  const repository = repositoryOf(reference);
  const wanted = reference.quantization?.toLowerCase();
  const matching = all.filter(
    ({ name, files }) =>
      wanted === undefined || name.toLowerCase() === wanted || files.some(({ path }) => path.toLowerCase() === wanted),
  );
  if (all.length === 0) throw new RocmForgeError('MODEL_NOT_FOUND', `${repository} holds no GGUF model`);
  const [only, ...others] = matching;
  if (only === undefined) {
    const names = all.map(({ name }) => name).join(', ');
    throw new RocmForgeError(
      'MODEL_NOT_FOUND',
      `${repository} holds no ${JSON.stringify(reference.quantization)}; there are ${names}`,
    );
  }
  if (others.length > 0) {
    const names = matching.map(({ name, files }) => (wanted === undefined ? name : files[0]?.path)).join(', ');
    const what = wanted === undefined ? 'quantizations; name one' : 'models of that name; name a file';
    throw new RocmForgeError('INVALID_OPTION', `${repository} holds several ${what} after a colon: ${names}`, {
      models: String(matching.length),
    });
  }
  return only;
}

/** True if the parts are numbered from 1 without a gap. */
function isWhole(files: readonly HubFile[]): boolean {
  if (files.length === 1 && !SPLIT.test(files[0]?.path ?? '')) return true;
  const numbers = new Set(files.map(({ path }) => Number(SPLIT.exec(path)?.[2])));
  return files.every((_, index) => numbers.has(index + 1));
}

function nameOf([first]: readonly HubFile[]): string {
  const whole = (first?.path ?? '').replace(SPLIT, '$1.gguf').replace(/\.gguf$/i, '');
  const parts = whole.split('/');
  for (const part of parts.reverse()) {
    const type = TYPE.exec(part)?.[1];
    if (type !== undefined) return type.toUpperCase();
  }
  return whole.slice(whole.lastIndexOf('/') + 1);
}
