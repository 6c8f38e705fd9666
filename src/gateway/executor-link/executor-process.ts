import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Logger } from '../../shared/log.js';
import { packageRoot } from '../../shared/package.js';

/** How the executor that a gateway starts is to run. */
export interface ExecutorProcessOptions {
  readonly device: 'auto' | 'hip' | 'cuda' | 'host';
  readonly gpu?: number | undefined;
  readonly threads?: number | undefined;
  readonly kernels?: string | undefined;
  readonly attention?: 'fused' | 'unfused' | undefined;
  /** For tests. */
  readonly stepDelayMs?: number | undefined;
  readonly plantFault?: string | undefined;
}

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last lines it wrote to stderr. */
  readonly stderrTail: readonly string[];
}

const STDERR_LINES_KEPT = 20;
const TERMINATE_GRACE_MS = 2000;

/** An executor that this gateway started, on a socket in a private folder. */
export class ExecutorProcess {
  readonly address: string;
  /** Resolves when the process has ended. */
  readonly exited: Promise<Exit>;
  private readonly child: ChildProcess;
  private readonly folder: string;
  private readonly tail: string[] = [];

  constructor(options: ExecutorProcessOptions, log: Logger) {
    this.folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
    const socket = path.join(this.folder, 'executor.sock');
    this.address = `unix:${socket}`;
    const args = [path.join(packageRoot, 'dist', 'cli', 'main.js'), 'executor', '--listen', this.address];
    args.push('--die-with-parent', '--device', options.device);
    if (options.gpu !== undefined) args.push('--gpu', String(options.gpu));
    if (options.threads !== undefined) args.push('--threads', String(options.threads));
    if (options.kernels !== undefined) args.push('--kernels', options.kernels);
    if (options.attention !== undefined) args.push('--attention', options.attention);
    if (options.stepDelayMs !== undefined) args.push('--step-delay-ms', String(options.stepDelayMs));
    if (options.plantFault !== undefined) args.push('--plant-fault', options.plantFault);
    this.child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'pipe'] });
    // Only its end matters; writing to a dead child must not end the gateway.
    this.child.stdin?.on('error', () => undefined);
    createInterface({ input: this.child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      this.tail.push(line);
      if (this.tail.length > STDERR_LINES_KEPT) this.tail.shift();
      process.stderr.write(`${line}\n`);
    });
    this.exited = new Promise((resolve) => {
      const settle = (code: number | null, signal: NodeJS.Signals | null): void => {
        rmSync(this.folder, { recursive: true, force: true });
        resolve({ code, signal, stderrTail: this.tail });
      };
      this.child.once('error', (error) => {
        log.error({ err: error }, 'the executor could not be started');
        settle(null, null);
      });
      this.child.once('close', settle);
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Asks the process to end, then makes it. Resolves when it has. */
  async stop(): Promise<Exit> {
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), TERMINATE_GRACE_MS);
    const exit = await this.exited;
    clearTimeout(timer);
    return exit;
  }

  /** Ends the process at once: it hangs, or nobody waits for it. */
  kill(): void {
    this.child.kill('SIGKILL');
  }
}
