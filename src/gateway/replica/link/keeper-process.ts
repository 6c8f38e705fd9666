import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { RocmForgeError } from '../../../shared/errors.js';
import { LineSplitter } from '../../../shared/line-splitter.js';
import { type Logger, logSink } from '../../../shared/log.js';
import { packageRoot } from '../../../shared/package.js';
import type { ExecutorProcessOptions } from './executor-process.js';
import { reportedError } from './fault-reports.js';
import { makePrivateFolder, removePrivateFolder } from './private-folder.js';

/** Time that a keeper may take to end by itself: a driver frees gigabytes before its process ends. */
const GRACE_MS = 2000;

/** Files that AMD's and NVIDIA's drivers make where there is a GPU. */
const GPU_FILES = ['/dev/kfd', '/dev/nvidiactl'];

/** True if executors with these options may compute on a GPU. */
export const mayHaveGpu = (device: ExecutorProcessOptions['device']): boolean =>
  device === 'auto' ? GPU_FILES.some((file) => existsSync(file)) : device !== 'host';

/** A process that keeps weights and KV blocks in a GPU's memory while executors come and go. */
export class KeeperProcess {
  /** Path of its socket. */
  readonly socket: string;
  /**
   * Resolves when the process has ended. `unneeded`: no GPU is used, or no other process may use it. `failed`: it kept nothing yet.
   * `lost`: with the memory that it kept
   */
  readonly exited: Promise<'unneeded' | 'failed' | 'lost'>;
  /** Why it ended, as it reports it. */
  error: RocmForgeError | undefined;
  private readonly child: ChildProcess;
  private readonly folder: string;

  /** @throws RocmForgeError or Error when the system has no room for it now */
  constructor(options: ExecutorProcessOptions, log: Logger) {
    this.folder = makePrivateFolder();
    this.socket = path.join(this.folder, 'keeper.sock');
    const program = path.join(packageRoot, 'dist', 'cli', 'main.js');
    const args = [program, 'keeper', '--listen', this.socket, '--device', options.device];
    if (options.gpu !== undefined) args.push('--gpu', String(options.gpu));
    if (options.gpus !== undefined) args.push('--gpus', String(options.gpus));
    if (options.kernels !== undefined) args.push('--kernels', options.kernels);
    try {
      this.child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'pipe'], detached: true });
    } catch (error) {
      removePrivateFolder(this.folder);
      throw error;
    }
    this.child.stdin?.on('error', () => undefined);
    this.child.stderr?.on('error', () => undefined);
    const lines = new LineSplitter((line) => {
      const error = reportedError(line);
      if (error === undefined) logSink.write(`${line}\n`);
      else this.error = error;
    });
    this.child.stderr?.on('data', (bytes: Buffer) => lines.push(bytes));
    this.child.stderr?.on('end', () => lines.end());
    this.exited = new Promise((resolve) => {
      const settle = (code: number | null): void => {
        const hasListened = existsSync(this.socket);
        removePrivateFolder(this.folder);
        resolve(hasListened ? 'lost' : code === 0 ? 'unneeded' : 'failed');
      };
      this.child.once('error', (error) => {
        log.error({ err: error }, 'the keeper of device memory could not be started');
        settle(null);
      });
      this.child.once('close', settle);
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Ends the process; the device has all memory back when no executor has it either. */
  async end(): Promise<void> {
    this.child.stdin?.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), GRACE_MS);
    await this.exited;
    clearTimeout(timer);
  }
}
