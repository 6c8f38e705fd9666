import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';
import { packageRoot } from '../../shared/package.js';

/** One built file of a target's manifest. */
export interface ManifestFile {
  readonly file: string;
  readonly sha256: string;
  readonly kernels?: readonly {
    readonly name: string;
    readonly wave: number;
    readonly arguments: readonly { readonly bytes: number }[];
  }[];
}

/** The built kernels. */
export interface KernelsFolder {
  /** Folder with one sub-folder a target; default: the package's own. */
  readonly kernels?: string | undefined;
}

export const kernelsRoot = (options: KernelsFolder) => options.kernels ?? path.join(packageRoot, 'build', 'kernels');

/** @throws RocmForgeError `KERNELS_INVALID` */
export function readManifest(folder: string, target: string): readonly ManifestFile[] {
  const file = path.join(folder, 'manifest.json');
  if (!existsSync(file)) {
    throw new RocmForgeError(
      'KERNELS_INVALID',
      `${file} is missing; run "npm run build:kernels -- --target ${target}"`,
    );
  }
  return (JSON.parse(readFileSync(file, 'utf8')) as { files: readonly ManifestFile[] }).files;
}

/** The path of a built file whose content is what the manifest beside it says. */
export function verifiedFile(folder: string, file: string, target: string, manifest: readonly ManifestFile[]): string {
  const full = path.join(folder, file);
  const expected = manifest.find((entry) => entry.file === file)?.sha256;
  if (expected === undefined || sha256Of(full) !== expected) {
    throw new RocmForgeError(
      'KERNELS_INVALID',
      `${full} is not the file its manifest describes; run "npm run build:kernels -- --target ${target}"`,
    );
  }
  return full;
}

/** Hashes of files by their paths, and what changes when they do. */
const hashes = new Map<string, { readonly stamp: string; readonly sha256: string }>();

/** Hash of a file; undefined where there is none. It is read once, unless it changes. */
function sha256Of(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  const stamp = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join();
  const known = hashes.get(file);
  if (known?.stamp === stamp) return known.sha256;
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  hashes.set(file, { stamp, sha256 });
  return sha256;
}

/**
 * Reads the code objects of a target, which opening a GPU of it then does no more.
 *
 * @throws RocmForgeError `KERNELS_INVALID`
 */
export function verifyKernels(options: KernelsFolder, target: string): void {
  const folder = path.join(kernelsRoot(options), target);
  const files = readManifest(folder, target);
  for (const { file } of files) verifiedFile(folder, file, target, files);
}

/** One digest of a target's code objects: the same for equal files. */
export function digestOf(files: readonly ManifestFile[]): string {
  const lines = files.map(({ file, sha256 }) => `${file} ${sha256}`).sort();
  return createHash('sha256').update(lines.join('\n')).digest('hex');
}
