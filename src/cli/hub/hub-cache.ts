import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadAddon } from '../../executor/device/addon.js';
import { type ModelReference, repositoryOf } from './model-reference.js';
import type { HubFile } from './quantizations.js';

const LOCK_POLL_MS = 200;
const COMMIT = /^[0-9a-f]{40}$/;

/**
 * A repository in the cache that Python's huggingface_hub shares: `blobs/SUM` holds contents, `snapshots/COMMIT/PATH` points to
 * them, `refs/REVISION` says which commit a branch is at, `../.locks/…/SUM.lock` is held while a blob is made.
 */
export class CachedRepository {
  private readonly folder: string;
  private readonly locks: string;

  constructor(
    cacheFolder: string,
    private readonly reference: ModelReference,
  ) {
    const name = `models--${repositoryOf(reference).replace('/', '--')}`;
    this.folder = path.join(cacheFolder, name);
    this.locks = path.join(cacheFolder, '.locks', name);
  }

  /** Path of a file's content once all of it is there and its sum is right. */
  blob({ digest }: HubFile): string {
    return path.join(this.folder, 'blobs', digest.hex);
  }

  /** Path of the bytes received so far; never read as a model. */
  incomplete(file: HubFile): string {
    return `${this.blob(file)}.incomplete`;
  }

  /** A file by its name in the repository. */
  pointer(commit: string, file: string): string {
    return path.join(this.folder, 'snapshots', commit, ...file.split('/'));
  }

  /** Makes the folders of a commit. */
  async prepare(): Promise<void> {
    for (const folder of [path.join(this.folder, 'blobs'), this.locks]) await mkdir(folder, { recursive: true });
  }

  /** True if a whole content of a file lies here. */
  has(file: HubFile): boolean {
    return sizeOf(this.blob(file)) === file.bytes;
  }

  /** Does something while no other process, Python's among them, makes the same blob. */
  async locked<T>(file: HubFile, work: () => Promise<T>, waits: () => void): Promise<T> {
    const lock = await this.take(path.join(this.locks, `${file.digest.hex}.lock`), waits);
    try {
      return await work();
    } finally {
      await lock.close();
    }
  }

  /** Gives a blob its name in a commit. */
  async point(commit: string, file: HubFile): Promise<void> {
    const pointer = this.pointer(commit, file.path);
    await mkdir(path.dirname(pointer), { recursive: true });
    const target = path.relative(path.dirname(pointer), this.blob(file));
    // Over whatever was there, at once: somebody may open it now.
    const made = `${pointer}.${process.pid}.tmp`;
    await rm(made, { force: true });
    await symlink(target, made);
    await rename(made, pointer);
  }

  /** Says that the revision is at a commit. */
  async refer(commit: string): Promise<void> {
    const { revision } = this.reference;
    if (revision === commit) return;
    const file = path.join(this.folder, 'refs', ...revision.split('/'));
    if ((await readFile(file, 'utf8').catch(() => '')) === commit) return;
    await mkdir(path.dirname(file), { recursive: true });
    const made = `${file}.${process.pid}.tmp`;
    await writeFile(made, commit);
    await rename(made, file);
  }

  /** Files of the revision that are here, without a request to a hub; undefined: it was never pulled. */
  found(): { readonly commit: string; readonly files: readonly HubFile[] } | undefined {
    const { revision } = this.reference;
    const commit = COMMIT.test(revision) ? revision : textOf(path.join(this.folder, 'refs', ...revision.split('/')));
    if (commit === undefined || !COMMIT.test(commit)) return undefined;
    const snapshot = path.join(this.folder, 'snapshots', commit);
    const files: HubFile[] = [];
    const look = (under: string): void => {
      for (const entry of readdirSync(path.join(snapshot, under), { withFileTypes: true })) {
        const name = path.posix.join(under, entry.name);
        if (entry.isDirectory()) look(name);
        const bytes = sizeOf(path.join(snapshot, name));
        // A pointer to what is no more has no size. Sums were looked at before a blob got its name.
        if (bytes !== undefined) files.push({ path: name, bytes, digest: { kind: 'sha256', hex: '' } });
      }
    };
    try {
      look('');
    } catch {
      return undefined;
    }
    return { commit, files };
  }

  private async take(file: string, waits: () => void): Promise<FileHandle> {
    mkdirSync(path.dirname(file), { recursive: true });
    for (let attempt = 0; ; attempt += 1) {
      const handle = await open(file, 'a+', 0o664);
      // Whoever had it may have removed the file: a lock on it keeps nobody out.
      if (loadAddon().lockFile(handle.fd) && (await handle.stat()).nlink > 0) return handle;
      await handle.close();
      if (attempt === 0) waits();
      await sleep(LOCK_POLL_MS);
    }
  }
}

/** Size of a regular file, symbolic links followed; undefined: there is none. */
function sizeOf(file: string): number | undefined {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats?.isFile() ? stats.size : undefined;
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
