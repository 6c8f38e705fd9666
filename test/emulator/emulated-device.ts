import path from 'node:path';
import type { NativeDevice, NativeGridDim, NativeLaunch, NativeStep } from '../../src/executor/device/addon.js';
import { describeCodeObjects, type EmulatedLaunch, EmulatorProcess, type KernelMetadata } from './emulator-process.js';
import type { Executed } from './executed.js';

/** Threads of a block in every AMD code object: BLOCK of kernels/forge/amd.h. */
const BLOCK = 256;
const ALIGNMENT = 256;
/** About twenty seconds of emulation. */
const BUDGET = 2_000_000;

/** One process serves all devices. */
let emulator: EmulatorProcess | undefined;

/** A device whose kernels are AMD code objects and whose processor is an instruction set emulator. */
export class EmulatedDevice implements NativeDevice {
  readonly properties;
  private readonly kernels: Readonly<Record<string, KernelMetadata>>;
  private readonly regions = new Map<number, Uint8Array>();
  private readonly plans: (readonly NativeLaunch[])[] = [];
  private readonly tally = new Map<string, Executed>();
  private nextAddress = ALIGNMENT;
  private launches = 0;

  /** @param folder holds the code objects of one target */
  constructor(private readonly folder: string) {
    this.kernels = describeCodeObjects(folder);
    const [first] = Object.values(this.kernels);
    if (first === undefined) {
      const target = path.basename(folder);
      throw new Error(`no code objects in ${folder}; run "npm run build:kernels -- --target ${target}"`);
    }
    this.properties = { description: `emulated ${path.basename(folder)}`, wave: first.wave, block: BLOCK };
  }

  kernel(name: string): number[] {
    return this.metadata(name).arguments.map(({ bytes }) => bytes);
  }

  allocate(bytes: number): number {
    const address = this.nextAddress;
    this.regions.set(address, new Uint8Array(bytes));
    this.nextAddress += Math.ceil((bytes + 1) / ALIGNMENT) * ALIGNMENT;
    return address;
  }

  release(address: number): void {
    this.regions.delete(address);
  }

  allocatePinned(bytes: number): number {
    return this.allocate(bytes);
  }

  releasePinned(address: number): void {
    this.release(address);
  }

  write(address: number, data: Uint8Array): void {
    this.from(address).set(data);
  }

  read(address: number, bytes: number): Uint8Array {
    return this.from(address).slice(0, bytes);
  }

  upload(): void {
    throw new Error('an emulated device has no part in the host’s memory');
  }

  memory() {
    return { freeBytes: 0, totalBytes: 0 };
  }

  copies() {
    return { in: 0, inBytes: 0, out: 0, outBytes: 0 };
  }

  timeLaunches(): Float64Array {
    throw new Error('an emulator has no time');
  }

  createPlan(launches: readonly NativeLaunch[]): number {
    return this.plans.push(launches) - 1;
  }

  releasePlan(plan: number): void {
    this.plans[plan] = [];
  }

  capture(): void {
    throw new Error('an emulator has no graphs');
  }

  graphs(): number {
    return 0;
  }

  canReach(): boolean {
    return false;
  }

  reserve(): never {
    throw new Error('an emulated device is alone');
  }

  signal(): never {
    throw new Error('an emulated device is alone');
  }

  linkTo(): never {
    throw new Error('an emulated device is alone');
  }

  async run(step: NativeStep): Promise<number> {
    const started = performance.now();
    if (step.input.length > 0) this.write(step.deviceInput, step.input);
    for (const launch of this.plans[step.plan]!) await this.launch(launch, step.counts);
    if (step.output.length > 0) step.output.set(this.read(step.deviceOutput, step.output.length));
    return (performance.now() - started) * 1000;
  }

  /** Launches since the last call, by code object without its suffix. */
  takeExecuted(): ReadonlyMap<string, Executed> {
    const taken = new Map(this.tally);
    this.tally.clear();
    return taken;
  }

  private async launch({ kernel, grid, arguments: words }: NativeLaunch, counts: Int32Array): Promise<void> {
    const { file, sha256, arguments: described } = this.metadata(kernel);
    const buffers: Uint8Array[] = [];
    const request: EmulatedLaunch = {
      file: path.join(this.folder, file),
      kernel,
      grid: grid.map((dim) => blocksOf(dim, counts)) as [number, number, number],
      block: BLOCK,
      order: (['fwd', 'rev', this.launches] as const)[this.launches % 3]!,
      budget: BUDGET,
      arguments: described.map(({ bytes, buffer }, i) => {
        if (!buffer) return { hex: Buffer.from(words.buffer, words.byteOffset + i * 8, bytes).toString('hex') };
        const content = this.from(Number(words[i]));
        if (buffers.some(({ buffer }) => buffer === content.buffer)) {
          throw new Error(`${kernel}: two arguments in one allocation, which the emulated device copies apart`);
        }
        buffers.push(content);
        return content;
      }),
    };
    this.launches += 1;
    emulator ??= new EmulatorProcess();
    const result = await emulator.launch(request);
    for (const [i, buffer] of buffers.entries()) buffer.set(result.buffers[i]!);
    const operation = path.basename(file, '.hsaco');
    const before = this.tally.get(operation) ?? { kernels: [], launches: 0, instructions: 0 };
    this.tally.set(operation, {
      sha256,
      held: Object.keys(this.kernels).filter((name) => this.kernels[name]!.file === file),
      kernels: [...new Set([...before.kernels, kernel])],
      launches: before.launches + 1,
      instructions: before.instructions + result.instructions,
    });
  }

  private metadata(name: string): KernelMetadata {
    const found = this.kernels[name];
    if (found === undefined) throw new Error(`the code objects in ${this.folder} hold no kernel ${name}`);
    return found;
  }

  /** The memory from an address to the end of its allocation. */
  private from(address: number): Uint8Array {
    for (const [start, content] of this.regions) {
      if (address >= start && address <= start + content.length) return content.subarray(address - start);
    }
    throw new Error(`address ${address} was not allocated`);
  }
}

function blocksOf(dim: NativeGridDim, counts: Int32Array): number {
  const value =
    'first' in dim ? Math.max(0, Math.min(counts[dim.count]! - dim.first, dim.most)) * dim.times : dim.constant;
  return Math.ceil(value / dim.divisor);
}
