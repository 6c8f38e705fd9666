import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RocmForgeError, typedError } from '../../shared/errors.js';
import { endOfRange } from './hub-ranges.js';
import { causeOf, type HubRequests, protocolError } from './hub-requests.js';
import type { Digest, HubFile } from './quantizations.js';

/** Asked for at once: a hub gives signed addresses for each, which end after a while, and no whole files of any size. */
const RANGE_BYTES = 256 << 20;
const READ_BYTES = 4 << 20;

/** One content on its way to the cache. */
export interface BlobDownload {
  readonly url: string;
  readonly file: HubFile;
  /** File of the bytes received so far, also from a process that was killed. */
  readonly incomplete: string;
  /** The content gets this name when its sum is right, and not before. */
  readonly blob: string;
  /** @param bytes of this file that are there */
  readonly progress: (bytes: number) => void;
}

/**
 * Downloads what is missing of a content, holds all of it against its sum and gives it its name. Killed at any moment, the next
 * call goes on; what lies there already is read, since nobody knows who wrote it.
 *
 * @throws RocmForgeError `CHECKSUM_MISMATCH`, `DISK_FULL`, and those of {@link HubRequests}
 */
export async function downloadBlob(download: BlobDownload, requests: HubRequests): Promise<void> {
  const { file, incomplete, blob } = download;
  // A link in place of the file would have us write somewhere else.
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;
  const handle = await open(incomplete, flags, 0o666).catch((error) => {
    throw diskError(error, incomplete);
  });
  try {
    let begun = await Transfer.begin(handle, download);
    const resumed = begun.have > 0;
    await begun.complete(requests);
    if (!begun.isRight() && resumed) {
      // Something else was there: what the hub gives has its own chance.
      await handle.truncate(0);
      begun = await Transfer.begin(handle, download);
      await begun.complete(requests);
    }
    if (!begun.isRight()) {
      await rm(incomplete, { force: true });
      throw new RocmForgeError(
        'CHECKSUM_MISMATCH',
        `${file.path} has another ${file.digest.kind} than the hub lists; the download is deleted, pull it again`,
      );
    }
    await handle.sync();
    await rename(incomplete, blob);
  } catch (error) {
    throw diskError(error, incomplete);
  } finally {
    await handle.close();
  }
  await syncFolder(path.dirname(blob));
}

/** A file that grows, and the sum of what it holds. */
class Transfer {
  private readonly hash: Hash;

  private constructor(
    private readonly handle: FileHandle,
    private readonly download: BlobDownload,
    /** Bytes that are there. */
    public have: number,
  ) {
    this.hash = hashOf(download.file);
  }

  /** Goes on from what the file holds. */
  static async begin(handle: FileHandle, download: BlobDownload): Promise<Transfer> {
    const { file, incomplete } = download;
    const { size } = await handle.stat();
    if (size > file.bytes) await handle.truncate(0);
    const transfer = new Transfer(handle, download, 0);
    await transfer.readKept(size > file.bytes ? 0 : size);
    const { bavail, bsize } = await statfs(path.dirname(incomplete));
    const missing = file.bytes - transfer.have;
    if (missing > bavail * bsize) {
      throw new RocmForgeError(
        'DISK_FULL',
        `${missing} bytes of ${file.path} are missing and ${bavail * bsize} are free beside ${incomplete}; make room, or set HF_HOME`,
      );
    }
    return transfer;
  }

  isRight(): boolean {
    return this.hash.copy().digest('hex') === this.download.file.digest.hex;
  }

  /** Asks for range after range. Only requests that bring nothing count as failures. */
  async complete(requests: HubRequests): Promise<void> {
    const { bytes } = this.download.file;
    const { attempts, firstWaitMs } = requests.patience;
    let fruitless = 0;
    while (this.have < bytes) {
      const before = this.have;
      const why = await this.range(requests);
      if (this.have >= bytes) return;
      fruitless = this.have > before ? 0 : fruitless + 1;
      if (why === undefined) continue;
      if (fruitless >= attempts) {
        throw new RocmForgeError(
          'HUB_UNAVAILABLE',
          `${this.download.file.path} broke off after ${this.have} of ${bytes} bytes: ${why}; pull again to resume`,
        );
      }
      await sleep(firstWaitMs * 2 ** fruitless);
    }
  }

  /** One request. @returns why it broke off; undefined: it did not */
  private async range(requests: HubRequests): Promise<string | undefined> {
    const { url, file } = this.download;
    const last = Math.min(this.have + RANGE_BYTES, file.bytes) - 1;
    const silence = new AbortController();
    const response = await requests.get(url, { range: `bytes=${this.have}-${last}` }, silence.signal);
    const end = await endOfRange(response, file, { first: this.have, last });
    // A hub without ranges sends everything; the bytes that are there stay until all of them were checked against their sum.
    let known = response.status === 200 ? this.have : 0;
    const timer = setTimeout(() => silence.abort(), requests.patience.silenceMs);
    try {
      for await (const piece of response.body ?? []) {
        timer.refresh();
        const fresh = piece.subarray(Math.min(known, piece.length));
        known -= piece.length - fresh.length;
        if (this.have + fresh.length > end) {
          throw protocolError(`it sends more of ${file.path} than the ${end - this.have} bytes that are left`);
        }
        await this.append(fresh);
      }
      return this.have < end ? 'the answer ended before all was sent' : undefined;
    } catch (error) {
      if (typedError(error) !== undefined || isDiskError(error)) throw error;
      return causeOf(error);
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  private async append(piece: Uint8Array): Promise<void> {
    for (let written = 0; written < piece.length; ) {
      const { bytesWritten } = await this.handle.write(piece, written, piece.length - written, this.have + written);
      written += bytesWritten;
    }
    this.hash.update(piece);
    this.have += piece.length;
    this.download.progress(this.have);
  }

  private async readKept(size: number): Promise<void> {
    const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, size));
    while (this.have < size) {
      const { bytesRead } = await this.handle.read(buffer, 0, Math.min(buffer.length, size - this.have), this.have);
      if (bytesRead === 0) break;
      this.hash.update(buffer.subarray(0, bytesRead));
      this.have += bytesRead;
      this.download.progress(this.have);
    }
  }
}

function hashOf({ digest: { kind }, bytes }: { readonly digest: Digest; readonly bytes: number }): Hash {
  return kind === 'sha256' ? createHash('sha256') : createHash('sha1').update(`blob ${bytes}\0`);
}

const isDiskError = (error: unknown): boolean => typeof (error as NodeJS.ErrnoException).errno === 'number';

/** Typed error of a disk; other errors as they are. */
export function diskError(error: unknown, file: string): unknown {
  if (typedError(error) !== undefined || !isDiskError(error)) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const kept = 'the downloaded part is kept: pull again to resume';
    return new RocmForgeError('DISK_FULL', `no room is left to write ${file}; ${kept}`, {}, { cause: error });
  }
  return new RocmForgeError(
    'INVALID_OPTION',
    `${file} cannot be written: ${message}; see HF_HOME`,
    {},
    { cause: error },
  );
}

/** A name that was given survives the machine. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
