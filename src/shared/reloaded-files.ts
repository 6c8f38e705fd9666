import { type BigIntStats, readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { RocmForgeError } from './errors.js';
import type { Logger } from './log.js';
import { type OptionFile, unreadableFile } from './option-file.js';

/** Interval at which the files are checked. */
const POLL_MS = 1000;
/** The most bytes of one file. */
const MAX_BYTES = 1 << 20;

/**
 * Joint content of some files, read again when one of them changes, also by being replaced. Content that cannot be read or
 * understood then changes nothing but the log.
 */
export class ReloadedFiles<T> {
  private value: T;
  private contents: string;
  private stamp: string;
  /** A file changed so shortly before it was read that it may have changed once more since, within one tick of its clock. */
  private mayBeStale: boolean;
  private isChecking = false;
  private lastComplaint = '';
  private readonly listeners = new Set<(value: T) => void>();
  private readonly timer: NodeJS.Timeout;

  /**
   * @param parse content of the texts of the files, in their order; throws RocmForgeError for invalid ones. `isReload` is false at the start
   * @throws RocmForgeError `INVALID_OPTION` for a file that cannot be read, and what `parse` throws
   */
  constructor(
    private readonly files: readonly OptionFile[],
    private readonly parse: (texts: readonly string[], isReload: boolean) => T,
    private readonly log: Logger,
  ) {
    const stats = files.map((file) => attempt(file, () => statSync(file.path, { bigint: true })));
    stats.forEach((stats, i) => {
      checkReadable(files[i] as OptionFile, stats);
    });
    const texts = files.map((file) => attempt(file, () => readFileSync(file.path, 'utf8')));
    this.value = parse(texts, false);
    this.contents = JSON.stringify(texts);
    this.stamp = stampOf(stats);
    this.mayBeStale = isFresh(stats);
    this.timer = setInterval(() => void this.check(), POLL_MS).unref();
  }

  /** Content of the files when they were last valid. */
  current(): T {
    return this.value;
  }

  /** @param listener told what the files say from now on, whenever that changes */
  onChange(listener: (value: T) => void): void {
    this.listeners.add(listener);
  }

  /** Looks at the files no more. */
  close(): void {
    clearInterval(this.timer);
    this.listeners.clear();
  }

  /** Looks at the files now, as is done each second. */
  async check(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    try {
      const stats = await this.ofEach((path) => stat(path, { bigint: true }));
      const stamp = stampOf(stats);
      if (stamp === this.stamp && !this.mayBeStale) return;
      this.stamp = stamp;
      this.mayBeStale = isFresh(stats);
      stats.forEach((stats, i) => {
        checkReadable(this.files[i] as OptionFile, stats);
      });
      const texts = await this.ofEach((path) => readFile(path, 'utf8'));
      // It may be written next.
      if (this.mayBeStale && texts.includes('')) return;
      const contents = JSON.stringify(texts);
      if (contents === this.contents) return;
      this.contents = contents;
      this.value = this.parse(texts, true);
      this.log.info({ files: this.paths }, 'files were reloaded');
      for (const listener of this.listeners) listener(this.value);
    } catch (error) {
      this.complain(error as Error);
    } finally {
      this.isChecking = false;
    }
  }

  private get paths(): readonly string[] {
    return this.files.map(({ path }) => path);
  }

  /** @throws RocmForgeError as {@link unreadableFile} */
  private ofEach<R>(read: (path: string) => Promise<R>): Promise<readonly R[]> {
    return Promise.all(
      this.files.map((file) =>
        read(file.path).catch((error: unknown) => {
          throw unreadableFile(file, error);
        }),
      ),
    );
  }

  /** A file that stays wrong is told of once. */
  private complain({ message }: Error): void {
    const complaint = `${this.stamp} ${message}`;
    if (complaint === this.lastComplaint) return;
    this.lastComplaint = complaint;
    this.log.warn(
      { files: this.paths, why: message },
      'files were not reloaded: their previous content stays in effect',
    );
  }
}

function attempt<R>(file: OptionFile, read: () => R): R {
  try {
    return read();
  } catch (error) {
    throw unreadableFile(file, error);
  }
}

function checkReadable({ option, path }: OptionFile, stats: BigIntStats): void {
  const refuse = (why: string): never => {
    throw new RocmForgeError('INVALID_OPTION', `--${option} ${path} ${why}`, { option });
  };
  if (!stats.isFile()) refuse('is not a file; name one');
  if (stats.size > MAX_BYTES) refuse(`has ${stats.size} bytes; the limit is ${MAX_BYTES}`);
}

function stampOf(stats: readonly BigIntStats[]): string {
  return stats.map(({ dev, ino, size, mtimeNs, ctimeNs }) => [dev, ino, size, mtimeNs, ctimeNs].join()).join(' ');
}

function isFresh(stats: readonly BigIntStats[]): boolean {
  return stats.some(({ ctimeMs }) => Date.now() - Number(ctimeMs) < POLL_MS);
}
