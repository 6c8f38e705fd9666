import { existsSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeEach, describe, expect, type TestContext } from 'vitest';
import { loadAddon } from '../../../src/executor/device/addon.js';
import type { Argument, KernelContract } from '../../../src/executor/device/contract.js';
import { Device } from '../../../src/executor/device/device.js';
import type { Sizes } from '../../../src/executor/device/tolerance.js';
import { openDevice } from '../../../src/executor/open-device.js';
import { packageRoot } from '../../../src/shared/package.js';
import { emulatedDevice, NotEmulated, printExecuted, refuseExceptions } from '../../emulator/target.js';
import { printErrors } from './compare.js';
import { type Buffers, launch, type TestArguments } from './launch.js';

/** Where the built kernels lie, twins among them; the mutation script points it at a copy with a mistake in it. */
export const kernelsFolder = process.env.ROCMFORGE_TEST_KERNELS ?? path.join(packageRoot, 'build', 'all-kernels');

/** The lane orders that the lanes target takes in turn, one a launch: forward, reverse, random. */
const LANE_ORDERS = 3;
/** Generated cases of a property on the emulator. */
const EMULATED_RUNS = 20;
/** After this time a property on the emulator draws no more cases; what passed until then counts. */
const EMULATED_MS = 1000 * Number(process.env.ROCMFORGE_EMULATED_SECONDS ?? 15);

declare module 'vitest' {
  interface TaskMeta {
    /** How many generated cases a test of a kernel held, and where. */
    shapes?: { readonly target: string; readonly count: number };
  }
}

/** A place where kernels run. */
export class Target {
  private opened: Device | undefined;
  /** The test that runs. */
  context: TestContext | undefined;
  private generating = false;

  constructor(
    readonly name: string,
    /** How many generated cases a property is held against. */
    readonly runs: number,
  ) {}

  /** Whether an AMD code object runs on an instruction set emulator. */
  get emulated(): boolean {
    return this.name.startsWith('gfx');
  }

  /** Whether threads of a block are simulated one by one: exact, and too slow for large shapes. */
  get simulated(): boolean {
    return this.name.startsWith('lanes') || this.emulated;
  }

  get device(): Device {
    if (this.emulated) this.opened ??= emulatedDevice(path.join(kernelsFolder, this.name));
    this.opened ??=
      this.name === 'host' ? openDevice({ kind: 'host', kernels: kernelsFolder }) : openLibrary(this.name);
    return this.opened;
  }

  /** Runs a kernel once; on simulated lanes once in each lane order, which must all give the same bits. */
  async launch<const A extends readonly Argument[]>(
    contract: KernelContract<A>,
    values: TestArguments<A>,
    dimensions: Sizes = {},
  ): Promise<Buffers> {
    if (this.emulated) return this.launchEmulated(contract, values, dimensions);
    const first = await launch(this.device, contract, values, dimensions);
    for (let order = 1; this.simulated && order < LANE_ORDERS; order++) {
      const again = await launch(this.device, contract, values, dimensions);
      for (const [name, buffer] of Object.entries(again)) {
        const same = Buffer.from(bytesOf(first[name]!)).equals(bytesOf(buffer));
        expect(same, `${contract.name}: ${name} depends on the order in which lanes run`).toBe(true);
      }
    }
    return first;
  }

  /** Runs a kernel once. What the emulator cannot run is drawn again in a property; another test is skipped. */
  private async launchEmulated<const A extends readonly Argument[]>(
    contract: KernelContract<A>,
    values: TestArguments<A>,
    dimensions: Sizes,
  ): Promise<Buffers> {
    try {
      refuseExceptions(contract.name, this.name, values);
      return await launch(this.device, contract, values, dimensions);
    } catch (error) {
      if (!(error instanceof NotEmulated)) throw error;
      if (!this.generating) return this.context!.skip(`${contract.name}: ${error.message}`);
      fc.pre(false);
      throw error;
    }
  }

  /** Holds a property against this target's number of cases. The sequence is fixed, so that a failure comes back. */
  async check<T>(cases: fc.Arbitrary<T>, property: (generated: T) => Promise<void>, runs = this.runs): Promise<void> {
    this.generating = true;
    try {
      const deadline = this.emulated ? Date.now() + EMULATED_MS : Number.POSITIVE_INFINITY;
      let held = 0;
      const inTime = async (generated: T) => {
        if (Date.now() >= deadline) return;
        await property(generated);
        held += 1;
      };
      await fc.assert(fc.asyncProperty(cases, inTime), { numRuns: runs, seed: 20_250_601 });
      const { meta } = this.context!.task;
      meta.shapes = { target: this.name, count: (meta.shapes?.count ?? 0) + held };
      if (held === 0) this.context!.skip('no generated case was small enough');
    } finally {
      this.generating = false;
    }
  }
}

function bytesOf(array: Buffers[string]): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function openLibrary(name: string): Device {
  const [folder = '', tiles = 'lanes'] = name.split('-');
  const file = name === 'host-v3' ? path.join('host', 'x86-64-v3.so') : path.join(folder, `${tiles}.so`);
  const library = path.join(kernelsFolder, file);
  if (!existsSync(library)) {
    throw new Error(`${library} is missing; run "npm run build:kernels -- --twins --target host,lanes"`);
  }
  return new Device(new (loadAddon().Device)({ library, threads: 1 }), 'host', 'lanes');
}

/** The host build for older processors has vector code of its own, which a newer one would otherwise never run. */
const hasOwnV3 =
  loadAddon().hostLevel() !== 'x86-64-v3' && existsSync(path.join(kernelsFolder, 'host', 'x86-64-v3.so'));
const runsOf: Readonly<Record<string, number>> = process.env.ROCMFORGE_TEST_EMULATOR
  ? Object.fromEntries(process.env.ROCMFORGE_TEST_EMULATOR.split(',').map((target) => [target, EMULATED_RUNS]))
  : { host: 200, ...(hasOwnV3 ? { 'host-v3': 40 } : {}), lanes32: 20, lanes64: 20 };

/** Simulated lanes with tiles as GPUs without matrix units multiply them, for kernels on tiles. */
const dotRunsOf: Readonly<Record<string, number>> = process.env.ROCMFORGE_TEST_EMULATOR
  ? {}
  : { 'lanes32-dots': 10, 'lanes64-dots': 10 };

/** Defines the tests of a kernel that multiplies tiles on each target. */
export function onEachTileTarget(kernel: string, define: (target: Target) => void): void {
  defineOn({ ...runsOf, ...dotRunsOf }, kernel, define);
}

/** Defines the tests of one kernel on each target; prints the largest error seen. */
export function onEachTarget(kernel: string, define: (target: Target) => void): void {
  defineOn(runsOf, kernel, define);
}

function defineOn(targets: Readonly<Record<string, number>>, kernel: string, define: (target: Target) => void): void {
  for (const [name, runs] of Object.entries(targets)) {
    const target = new Target(name, runs);
    describe(`${kernel} on ${target.name}`, () => {
      define(target);
      beforeEach((context) => {
        target.context = context;
      });
      afterAll(() => {
        printErrors(target.name);
        printExecuted(target.name);
      });
    });
  }
}
