import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';
import { isFull } from './run-size.js';

const kernels = path.join(packageRoot, 'build', 'kernels');
/** Kernels that compute the double's launches: with the reference kernels only in the full tier. */
const lanes = isFull ? path.join(packageRoot, 'build', 'all-kernels') : kernels;
const library = path.join(packageRoot, 'build', 'double', 'lib', 'libamdhip64.so');

/** Why tests on the double cannot run here; undefined when they can. */
export function doubleIsMissing(target = 'gfx1100'): string | undefined {
  if (!existsSync(library)) return `${library} is missing; run "node tools/build-double.mjs"`;
  for (const [folder, name] of [
    [kernels, target],
    [lanes, target.startsWith('gfx9') ? 'lanes64' : 'lanes32'],
  ] as const) {
    const manifest = path.join(folder, name, 'manifest.json');
    const options = folder === lanes ? `--twins --target ${name}` : `--target ${name}`;
    if (!existsSync(manifest)) return `${manifest} is missing; run "npm run build:kernels -- ${options}"`;
  }
  return undefined;
}

export interface DoubleOptions {
  readonly target?: string;
  /**
   * KIND@CALL:N, see test/doubles/hip/double.cc. It happens once, however often the process is started; KIND@CALL:N+ happens
   * between {@link HipDouble.plant} and {@link HipDouble.mend}.
   */
  readonly fault?: string;
  /** Memory of each device. */
  readonly memoryBytes?: number;
  /** Default: 1. */
  readonly devices?: number;
  /** True if devices reach each other; default: they do. */
  readonly peers?: boolean;
  /** Launches compute nothing. */
  readonly idle?: boolean;
}

/** A device that is not there: the environment in which `--device hip` finds it, and what crossed its bus. */
export class HipDouble {
  readonly environment: Readonly<Record<string, string>>;
  private readonly log: string;
  private readonly once: string;

  constructor(options: DoubleOptions = {}) {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    this.log = path.join(folder, 'log');
    this.once = path.join(folder, 'once');
    if (options.fault !== undefined && !options.fault.endsWith('+')) this.plant();
    this.environment = {
      ROCM_PATH: path.join(packageRoot, 'build', 'double'),
      ROCMFORGE_DOUBLE_KERNELS: lanes,
      ROCMFORGE_DOUBLE_LOG: this.log,
      ROCMFORGE_DOUBLE_ARCH: options.target ?? 'gfx1100',
      ...(options.fault !== undefined && { ROCMFORGE_DOUBLE_FAULT: options.fault, ROCMFORGE_DOUBLE_ONCE: this.once }),
      ...(options.idle === true && { ROCMFORGE_DOUBLE_IDLE: '1' }),
      ...(options.devices !== undefined && { ROCMFORGE_DOUBLE_DEVICES: String(options.devices) }),
      ...(options.peers === false && { ROCMFORGE_DOUBLE_PEERS: '0' }),
      ...(options.memoryBytes !== undefined && { ROCMFORGE_DOUBLE_MEMORY: String(options.memoryBytes) }),
    };
  }

  /** Lets this process and those it starts find the device. The driver reads it once: one double a test file. */
  install(): void {
    Object.assign(process.env, this.environment);
  }

  /** From now on the fault happens. */
  plant(): void {
    writeFileSync(this.once, '');
  }

  /** And now no more. */
  mend(): void {
    rmSync(this.once, { force: true });
  }

  /**
   * Calls of the device since it was made, in order: "in BYTES", "out BYTES", "peer BYTES", "within BYTES", "graph LAUNCHES",
   * "instantiate LAUNCHES" or "KERNEL 0".
   */
  calls(): readonly string[] {
    return existsSync(this.log) ? readFileSync(this.log, 'utf8').trim().split('\n') : [];
  }
}
