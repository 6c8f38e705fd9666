import { existsSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeEach, describe, expect, it, type TestContext } from 'vitest';
import { loadAddon } from '../../../src/executor/device/addon.js';
import { type Argument, type KernelContract, launchedOn } from '../../../src/executor/device/contract.js';
import { Device } from '../../../src/executor/device/device.js';
import type { Sizes } from '../../../src/executor/device/tolerance.js';
import { allContracts } from '../../../src/executor/kernels/index.js';
import { openDevice } from '../../../src/executor/load/open-device.js';
import { packageRoot } from '../../../src/shared/package.js';
import { emulatedDevice, NotEmulated, printExecuted, refuseExceptions } from '../../emulator/target.js';
import { byTier, seed } from '../../support/run-size.js';
import { printErrors } from './compare.js';
import { type Buffers, launch, type TestArguments } from './launch.js';

/** Which of the suite's tiers runs: `quick`, `default` or `full`. */
const tier = process.env.ROCMFORGE_TIER || 'default';
/** Targets of the instruction set emulator; then it runs no others. */
const emulated = process.env.ROCMFORGE_TEST_EMULATOR?.split(',').filter((name) => name !== '') ?? [];
/** True if this tier builds the reference kernels too, and each kernel for each target. */
const hasAll = tier === 'full' || emulated.length > 0;

/** Folder of the built kernels; the mutation script points it at a copy with a mistake in it. */
export const kernelsFolder =
  process.env.ROCMFORGE_TEST_KERNELS ?? path.join(packageRoot, 'build', hasAll ? 'all-kernels' : 'kernels');

/** The lane orders that the lanes target takes in turn, one a launch: forward, reverse, random. */
const LANE_ORDERS = 3;
/** Generated cases of a property on the emulator. */
const EMULATED_RUNS = 20;
/** After this time a property on the emulator draws no more cases; what passed until then counts. */
const EMULATED_MS = 1000 * Number(process.env.ROCMFORGE_EMULATED_SECONDS ?? 15);

declare module 'vitest' {
  interface TaskMeta {
    /** Number of generated cases that a test of a kernel passed, and its target. */
    shapes?: { readonly target: string; readonly count: number };
  }
}

/** The operation that a kernel's file is of: files of other types and forms share the reference and the test of one. */
export const operationOf = ({ source }: Pick<KernelContract, 'source'>): string =>
  path.basename(source, '.hip').replace(/^(.+)_(?:f16|q8_0|few|unpaged)$/, '$1');

/** True if this tier builds a contract's kernel for a target: only the full one builds more than what something launches. */
function isBuilt({ source, isCpuOnly, needsBlock }: KernelContract, target: string): boolean {
  if (target.startsWith('host') ? needsBlock : isCpuOnly) return false;
  if (hasAll) return true;
  const classes = target.startsWith('host') ? (['host'] as const) : (['host', 'portable'] as const);
  const sameFile = allContracts.filter((contract) => contract.source === source);
  return classes.some((deviceClass) => launchedOn(sameFile, deviceClass).length > 0);
}

/** A place where kernels run. */
export class Target {
  private opened: Device | undefined;
  /** The test that runs. */
  context: TestContext | undefined;
  private generating = false;

  constructor(
    readonly name: string,
    /** Number of generated cases of a property. */
    readonly runs: number,
  ) {}

  /** True if an AMD code object runs on an instruction set emulator. */
  get emulated(): boolean {
    return this.name.startsWith('gfx');
  }

  /** True if threads of a block are simulated one by one: exact, and too slow for large shapes. */
  get simulated(): boolean {
    return this.name.startsWith('lanes') || this.emulated;
  }

  /** True if this tier builds the contract's kernel for this target. */
  has(contract: KernelContract): boolean {
    return isBuilt(contract, this.name);
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

  /** Holds a property against this target's number of cases. The sequence is that of the run's seed, so that a failure recurs. */
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
      await fc.assert(fc.asyncProperty(cases, inTime), { numRuns: runs, seed: seed(20_250_601) });
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
    const build = hasAll ? '--twins --target host,lanes' : `--target ${folder}`;
    throw new Error(`${library} is missing; run "npm run build:kernels -- ${build}"`);
  }
  return new Device(new (loadAddon().Device)({ library, threads: 1 }), 'host', 'lanes');
}

interface TestTarget {
  readonly name: string;
  /** Number of generated cases of a property. */
  readonly runs: number;
  /** True if only kernels that multiply tiles run here: as GPUs without matrix units multiply them. */
  readonly tilesOnly?: boolean;
}

/** The build for older processors has vector code of its own, which a newer one would otherwise never run. */
const hasOwnV3 = () =>
  loadAddon().hostLevel() !== 'x86-64-v3' && existsSync(path.join(kernelsFolder, 'host', 'x86-64-v3.so'));

/**
 * Targets of the kernels' tests, by ROCMFORGE_TIER: `quick` on the host alone, `default` on simulated threads in waves of
 * 32 too, `full` on everything that `build-kernels --twins --target host,lanes` builds. ROCMFORGE_TEST_EMULATOR names
 * targets of the emulator, which then are the only ones.
 *
 * @throws Error for a tier that there is not
 */
export function testTargets(): readonly TestTarget[] {
  if (emulated.length > 0) return emulated.map((name) => ({ name, runs: EMULATED_RUNS }));
  const host = { name: 'host', runs: byTier({ quick: 20, default: 100, full: 200 }) };
  const lanes = (wave: number) => [
    { name: `lanes${wave}`, runs: byTier({ quick: 10, default: 12, full: 20 }) },
    { name: `lanes${wave}-dots`, runs: byTier({ quick: 5, default: 6, full: 10 }), tilesOnly: true },
  ];
  if (tier === 'quick') return [host];
  if (tier === 'default') return [host, ...lanes(32)];
  if (tier !== 'full') throw new Error(`ROCMFORGE_TIER is "${tier}"; use quick, default or full`);
  return [host, ...(hasOwnV3() ? [{ name: 'host-v3', runs: 40 }] : []), ...lanes(32), ...lanes(64)];
}

/** Defines the tests of a kernel that multiplies tiles on each target. */
export function onEachTileTarget(kernel: string, define: (target: Target) => void): void {
  defineOn(testTargets(), kernel, define);
}

/** Defines the tests of one kernel on each target; prints the largest error seen. */
export function onEachTarget(kernel: string, define: (target: Target) => void): void {
  const targets = testTargets().filter(({ tilesOnly }) => tilesOnly !== true);
  defineOn(targets, kernel, define);
}

function defineOn(targets: readonly TestTarget[], kernel: string, define: (target: Target) => void): void {
  const contracts = allContracts.filter((contract) => operationOf(contract) === kernel);
  // A test of several operations checks each itself.
  const built = targets.filter(
    ({ name }) => contracts.length === 0 || contracts.some((contract) => isBuilt(contract, name)),
  );
  if (built.length === 0) it.skip(`${kernel} (skipped, not built for the targets of this tier)`);
  for (const { name, runs } of built) {
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
