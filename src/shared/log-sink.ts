import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';

/** Bytes that wait for a reader who does not keep up; what comes beyond them is dropped. */
const MOST_WAITING_BYTES = 256 << 10;
const RETRY_MS = 100;

/**
 * Writes lines to stderr, or does not: a log is never worth a stream. A reader that went away, a full disk and a reader
 * that stands still cost lines, which are counted, and neither an exception nor a wait.
 */
export class LogSink {
  /** Lines that were not written. */
  dropped = 0;
  private readonly fd: number;
  /** True if a write may wait for a reader, so that only another thread may make it. */
  private readonly mayBlock: boolean;
  private waiting: Buffer[] = [];
  private waitingBytes = 0;
  private isWriting = false;
  private timer: NodeJS.Timeout | undefined;

  /**
   * @param fd of the log
   * @param format what is written in place of a line
   */
  constructor(
    fd = 2,
    private readonly format: (line: string) => string = (line) => line,
  ) {
    ({ fd: this.fd, mayBlock: this.mayBlock } = withoutWaiting(fd));
  }

  /** @param line with its newline */
  write(line: string): void {
    if (this.waitingBytes >= MOST_WAITING_BYTES) {
      this.dropped += 1;
      return;
    }
    const bytes = Buffer.from(this.format(line));
    this.waiting.push(bytes);
    this.waitingBytes += bytes.length;
    this.flush();
  }

  private flush(): void {
    if (this.mayBlock) this.writeElsewhere();
    else this.writeHere();
  }

  private writeHere(): void {
    while (this.waiting.length > 0) {
      const [line] = this.waiting as [Buffer];
      try {
        this.written(writeSync(this.fd, line));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
          this.tryLater();
          return;
        }
        this.drop();
      }
    }
  }

  private writeElsewhere(): void {
    const [line] = this.waiting;
    if (line === undefined || this.isWriting) return;
    this.isWriting = true;
    write(this.fd, line, (error, bytes) => {
      this.isWriting = false;
      if (error) this.drop();
      else this.written(bytes);
      this.writeElsewhere();
    });
  }

  /** So many bytes of the first line are out. */
  private written(bytes: number): void {
    const line = this.waiting[0] as Buffer;
    this.waitingBytes -= bytes;
    if (bytes < line.length) this.waiting[0] = line.subarray(bytes);
    else this.waiting.shift();
  }

  private drop(): void {
    this.waitingBytes -= (this.waiting.shift() as Buffer).length;
    this.dropped += 1;
  }

  private tryLater(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.writeHere();
    }, RETRY_MS).unref();
  }
}

/**
 * A descriptor that never waits for a reader: files and terminals as they are; a pipe opened once more, because its flags
 * would be those of everybody who has it. What cannot be opened again (a socket, another user's pipe) may block.
 */
function withoutWaiting(fd: number): { readonly fd: number; readonly mayBlock: boolean } {
  try {
    const stat = fstatSync(fd);
    if (stat.isFIFO()) {
      return { fd: openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK), mayBlock: false };
    }
    return { fd, mayBlock: stat.isSocket() };
  } catch {
    return { fd, mayBlock: true };
  }
}
