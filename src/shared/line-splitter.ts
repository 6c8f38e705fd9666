/** More of a line than this comes as several: a driver may write without ever ending one. */
const MOST_BYTES = 8192;

const NEWLINE = 0x0a;

/** Cuts what a process writes into lines of at most {@link MOST_BYTES}. What it holds back is no more than one. */
export class LineSplitter {
  private held: Buffer = Buffer.alloc(0);

  constructor(private readonly onLine: (line: string) => void) {}

  push(bytes: Buffer): void {
    let rest = this.held.length === 0 ? bytes : Buffer.concat([this.held, bytes]);
    while (rest.length > 0) {
      const newline = rest.subarray(0, MOST_BYTES + 1).indexOf(NEWLINE);
      if (newline === -1 && rest.length <= MOST_BYTES) break;
      const end = newline === -1 ? MOST_BYTES : newline;
      this.onLine(rest.toString('utf8', 0, end).replace(/\r$/, ''));
      rest = rest.subarray(newline === -1 ? end : end + 1);
    }
    // A copy: a part of a chunk would keep the whole of it.
    this.held = Buffer.from(rest);
  }

  /** Nothing more comes. */
  end(): void {
    if (this.held.length > 0) this.onLine(this.held.toString('utf8'));
    this.held = Buffer.alloc(0);
  }
}
