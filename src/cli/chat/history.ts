import { appendFileSync, chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { defaultStateFolder } from '../../shared/fault-log.js';

const MOST_LINES = 1000;
/** Limit of bytes that are read; many times the size of so many lines. */
const MOST_BYTES = 4 << 20;
/** Only the user's own: what somebody says to a model is nobody else's. */
const MODE = 0o600;

/**
 * Lines typed in this and earlier conversations, in a file of the user's state folder. It is a convenience: its errors are
 * ignored.
 */
export class History {
  private readonly file: string;

  constructor(folder = defaultStateFolder()) {
    this.file = path.join(folder, 'chat-history');
  }

  /** The lines, latest first. Keeps the file to the latest of them. */
  read(): string[] {
    return this.quietly([], () => {
      const { size } = statSync(this.file);
      if (size > MOST_BYTES) return [];
      const lines = readFileSync(this.file, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
      const kept = lines.slice(-MOST_LINES);
      if (kept.length < lines.length) {
        const next = `${this.file}.${process.pid}`;
        writeFileSync(next, `${kept.join('\n')}\n`, { mode: MODE });
        renameSync(next, this.file);
      }
      return kept.reverse();
    });
  }

  /** @param line without its end */
  add(line: string): void {
    this.quietly(undefined, () => {
      mkdirSync(path.dirname(this.file), { recursive: true, mode: 0o700 });
      appendFileSync(this.file, `${line}\n`, { mode: MODE });
      chmodSync(this.file, MODE);
    });
  }

  private quietly<T>(otherwise: T, work: () => T): T {
    try {
      return work();
    } catch {
      return otherwise;
    }
  }
}
