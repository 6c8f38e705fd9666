import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';

const PROGRAM = path.join(packageRoot, 'test', 'support', 'terminal.py');

/** Why there is no pseudo-terminal here; undefined where there is one. */
export function terminalIsMissing(): string | undefined {
  return spawnSync('python3', ['-c', 'import pty']).status === 0 ? undefined : 'python3 with its pty module is missing';
}

/** A program at a terminal. */
export class Terminal {
  /** Everything it has shown. */
  shown = '';
  /** Its end. */
  readonly code: Promise<number | null>;
  private readonly child: ChildProcess;
  private seen = 0;
  private readonly waiting = new Set<() => void>();

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { ROCMFORGE_LOG_LEVEL: _, ...rest } = process.env;
    this.child = spawn('python3', [PROGRAM, ...args], { env: { ...rest, TERM: 'xterm-256color', ...env } });
    const look = (data: Buffer): void => {
      this.shown += data;
      for (const check of this.waiting) check();
    };
    this.child.stdout?.on('data', look);
    this.child.stderr?.on('data', look);
    this.code = new Promise((resolve) => this.child.once('close', resolve));
  }

  /** The built `rocmforge` at a terminal. */
  static rocmforge(args: readonly string[], env?: Readonly<Record<string, string>>): Terminal {
    return new Terminal([process.execPath, path.join(packageRoot, 'dist', 'cli', 'main.js'), ...args], env);
  }

  type(keys: string): void {
    this.child.stdin?.write(keys);
  }

  /** Waits until something is shown beyond what was waited for before. @returns what was shown up to there */
  async until(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        const rest = this.shown.slice(this.seen);
        const match = pattern.exec(rest);
        if (match === null) return;
        this.seen += match.index + match[0].length;
        this.waiting.delete(check);
        resolve(rest.slice(0, match.index + match[0].length));
      };
      this.waiting.add(check);
      void this.code.then((code) => reject(new Error(`ended with ${code}, without ${pattern}: ${this.shown}`)));
      check();
    });
  }

  /** The terminal is closed. */
  hangUp(): Promise<number | null> {
    this.child.stdin?.end();
    return this.code;
  }
}
