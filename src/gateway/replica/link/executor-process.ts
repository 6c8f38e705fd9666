import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import path from 'node:path';
import { RocmForgeError } from '../../../shared/errors.js';
import { argumentsOf, EXECUTOR_OPTIONS } from '../../../shared/executor-options.js';
import { type FaultRecord, readFaultRecord } from '../../../shared/fault-record.js';
import { LineSplitter } from '../../../shared/line-splitter.js';
import { type Logger, logSink } from '../../../shared/log.js';
import type { GivenValues, OptionValues } from '../../../shared/option-table.js';
import { packageRoot } from '../../../shared/package.js';
import { reportedError } from './fault-reports.js';
import { makePrivateFolder, removePrivateFolder } from './private-folder.js';

/** Options of an executor that a gateway starts. */
export interface ExecutorProcessOptions extends GivenValues<typeof EXECUTOR_OPTIONS> {
  readonly device: OptionValues<typeof EXECUTOR_OPTIONS>['device'];
  /** The model's file, or its parts, open in this process: the executor inherits them, whatever becomes of their paths. */
  readonly modelDescriptors?: readonly number[] | undefined;
  /** Memory that outlives the executor, see `KeptMemory`: a descriptor of the host's, or the socket of the process with a GPU's. */
  readonly keptMemory?: number | undefined;
  readonly keeper?: string | undefined;
  /** Memory of the host for KV blocks of an unloaded model, as a descriptor. */
  readonly savedMemory?: number | undefined;
  /** True if another executor is to fit on the device beside this one. */
  readonly hasSpare?: boolean | undefined;
  /** True if it is to open no device before {@link ExecutorProcess.begin}. */
  readonly prestarted?: boolean | undefined;
  /** Load that it rehearses before {@link ExecutorProcess.begin}: of `encodeRehearsal`. */
  readonly rehearsal?: string | undefined;
  /** True if the error with which it ends is to be logged as it writes it; default: its end is reported with it. */
  readonly forwardsError?: boolean | undefined;
  /** The program of the executor; default: this package's own. */
  readonly program?: string | undefined;
}

/** End of a process. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** True if this gateway killed it. */
  readonly isKilled: boolean;
  /** The last lines it wrote to stderr. */
  readonly stderrTail: readonly string[];
  /** Its last activity on its device. */
  readonly record: FaultRecord | undefined;
}

const STDERR_LINES_KEPT = 20;

/** Time to wait for a process after SIGKILL. One that sits in a driver call may not end before the machine does. */
const UNKILLABLE_MS = 5000;

/** An executor that this gateway started, on a socket in a private folder. */
export class ExecutorProcess {
  readonly address: string;
  /** Resolves when the process has ended. */
  readonly exited: Promise<Exit>;
  private readonly child: ChildProcess;
  private readonly folder: string;
  private readonly tail: string[] = [];
  private isKilled = false;

  /**
   * @param stepTimeoutMs the least time a step gets before the executor calls itself hung
   * @throws RocmForgeError `EXECUTOR_UNAVAILABLE` when the system has no room for it now: files, folders, processes
   */
  constructor(options: ExecutorProcessOptions, stepTimeoutMs: number, log: Logger) {
    this.folder = makePrivateFolder();
    const socket = path.join(this.folder, 'executor.sock');
    const record = path.join(this.folder, 'fault-record');
    this.address = `unix:${socket}`;
    const program = options.program ?? path.join(packageRoot, 'dist', 'cli', 'main.js');
    const args = [program, 'executor', '--listen', this.address, '--fault-record', record];
    args.push(
      '--die-with-parent',
      '--step-timeout-ms',
      String(stepTimeoutMs),
      ...argumentsOf(EXECUTOR_OPTIONS, options),
    );
    const stdio: StdioOptions = ['pipe', 'ignore', 'pipe'];
    // A descriptor's number in the child is its place in the list.
    for (const open of options.modelDescriptors ?? []) args.push('--model-fd', String(stdio.push(open) - 1));
    if (options.keeper !== undefined) args.push('--keeper', options.keeper);
    if (options.hasSpare) args.push('--has-spare');
    if (options.prestarted) args.push('--prestarted');
    if (options.keptMemory !== undefined) {
      args.push('--kept-memory-fd', String(stdio.push(options.keptMemory) - 1));
    }
    if (options.savedMemory !== undefined) {
      args.push('--saved-memory-fd', String(stdio.push(options.savedMemory) - 1));
    }
    try {
      // In a group of its own: what a terminal sends is the gateway's to answer.
      this.child = spawn(process.execPath, args, { stdio, detached: true });
    } catch (error) {
      this.removeFolder();
      throw new RocmForgeError('EXECUTOR_UNAVAILABLE', `no process for an executor: ${(error as Error).message}`);
    }
    // Only its end matters; writing to a dead child must not end the gateway.
    this.child.stdin?.on('error', () => undefined);
    if (options.rehearsal) this.child.stdin?.write(`${options.rehearsal}\n`);
    // Without files for pipes there are none; the child's `error` follows.
    if (this.child.stderr) {
      this.child.stderr.on('error', () => undefined);
      const lines = new LineSplitter((line) => {
        this.tail.push(line);
        if (this.tail.length > STDERR_LINES_KEPT) this.tail.shift();
        // The supervisor reports why it ended.
        if (options.forwardsError || reportedError(line) === undefined) logSink.write(`${line}\n`);
      });
      this.child.stderr.on('data', (bytes: Buffer) => lines.push(bytes));
      this.child.stderr.on('end', () => lines.end());
    }
    this.exited = new Promise((resolve) => {
      const settle = (code: number | null, signal: NodeJS.Signals | null): void => {
        const recorded = readFaultRecord(record);
        this.removeFolder();
        resolve({ code, signal, isKilled: this.isKilled, stderrTail: this.tail, record: recorded });
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

  /** Lets one that stands by open its device. */
  begin(): void {
    if (this.child.stdin?.writable === true) this.child.stdin.write('\n');
  }

  private removeFolder(): void {
    try {
      removePrivateFolder(this.folder);
    } catch {
      // Whoever cleans up temporary folders will.
    }
  }

  /**
   * Asks the process to end, then makes it.
   *
   * @param graceMs how long it may take to end by itself
   * @returns how it ended; undefined when it did not, even killed
   */
  async end(graceMs: number): Promise<Exit | undefined> {
    const timers: NodeJS.Timeout[] = [];
    const after = (ms: number) => new Promise<void>((resolve) => timers.push(setTimeout(resolve, ms)));
    this.child.stdin?.end();
    const killed = after(graceMs).then(() => {
      this.isKilled = true;
      this.child.kill('SIGKILL');
      return after(UNKILLABLE_MS);
    });
    const exit = await Promise.race([this.exited, killed.then(() => undefined)]);
    for (const timer of timers) clearTimeout(timer);
    return exit;
  }
}
