import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';

const SERVER = path.join(packageRoot, 'tools', 'emulator', 'serve.py');

/** Metadata of a kernel in a code object. */
export interface KernelMetadata {
  /** Name of the code object's file. */
  readonly file: string;
  readonly sha256: string;
  readonly wave: number;
  /** Its visible arguments, in order. */
  readonly arguments: readonly { readonly bytes: number; readonly buffer: boolean }[];
}

/** One launch: buffers go as their content, scalars as their bytes. */
export interface EmulatedLaunch {
  readonly file: string;
  readonly kernel: string;
  readonly grid: readonly [number, number, number];
  /** Threads of a block. */
  readonly block: number;
  /** In which order blocks, and waves between barriers, run: forward, reverse or by this seed. */
  readonly order: 'fwd' | 'rev' | number;
  /** The launch ends with `NotEmulated` after this many wave-instructions. */
  readonly budget: number;
  readonly arguments: readonly (Uint8Array | { readonly hex: string })[];
}

/** A launch that the emulator cannot run, or not in reasonable time: no verdict on the kernel. */
export class NotEmulated extends Error {}

interface Answer {
  readonly instructions?: number;
  readonly error?: string;
  readonly too_long?: boolean;
}

/** Metadata of the code objects in a folder. */
export function describeCodeObjects(folder: string): Readonly<Record<string, KernelMetadata>> {
  const text = execFileSync('python3', [SERVER, '--describe', folder], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return JSON.parse(text) as Record<string, KernelMetadata>;
}

/** The Python process that holds the emulator. It takes one launch at a time and ends with this process. */
export class EmulatorProcess {
  private child: ChildProcessWithoutNullStreams | undefined;
  private received = Buffer.alloc(0);
  private ended: Error | undefined;
  private wake: () => void = () => {};
  private last: Promise<unknown> = Promise.resolve();

  /**
   * Runs one launch, after those that were asked for before.
   *
   * @returns wave-instructions executed, and each buffer's content afterwards
   * @throws NotEmulated when the budget is spent; Error with the emulator's message for anything else
   */
  launch(request: EmulatedLaunch): Promise<{ instructions: number; buffers: Uint8Array[] }> {
    const result = this.last.then(() => this.exchange(request));
    this.last = result.catch(() => {});
    return result;
  }

  private async exchange(request: EmulatedLaunch): Promise<{ instructions: number; buffers: Uint8Array[] }> {
    const { stdin } = this.start();
    const buffers = request.arguments.filter((argument) => argument instanceof Uint8Array);
    const header = {
      ...request,
      arguments: request.arguments.map((argument) =>
        argument instanceof Uint8Array ? { bytes: argument.length } : argument,
      ),
    };
    stdin.write(Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), ...buffers]));
    const answer = JSON.parse((await this.take(() => this.received.indexOf('\n') + 1)).toString()) as Answer;
    if (answer.error !== undefined) throw new (answer.too_long ? NotEmulated : Error)(answer.error);
    const contents: Uint8Array[] = [];
    for (const { length } of buffers) contents.push(Uint8Array.from(length === 0 ? [] : await this.take(() => length)));
    return { instructions: answer.instructions!, buffers: contents };
  }

  private start(): ChildProcessWithoutNullStreams {
    if (this.child === undefined) {
      this.child = spawn('python3', [SERVER], { stdio: ['pipe', 'pipe', 'pipe'] });
      this.child.stderr.pipe(process.stderr);
      this.child.stdout.on('data', (chunk: Buffer) => {
        this.received = Buffer.concat([this.received, chunk]);
        this.wake();
      });
      this.child.on('exit', (code, signal) => {
        this.ended = new Error(`the emulator process ended with ${signal ?? code}`);
        this.wake();
      });
    }
    return this.child;
  }

  /** Waits until `length()` bytes, more than none, are there and takes them. */
  private async take(length: () => number): Promise<Buffer> {
    for (;;) {
      const bytes = length();
      if (bytes > 0 && this.received.length >= bytes) {
        const taken = this.received.subarray(0, bytes);
        this.received = this.received.subarray(bytes);
        return taken;
      }
      if (this.ended) throw this.ended;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}
