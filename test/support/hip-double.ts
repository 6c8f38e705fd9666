import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';

const kernels = path.join(packageRoot, 'build', 'kernels');
const library = path.join(packageRoot, 'build', 'double', 'lib', 'libamdhip64.so');

/** Why tests on the double cannot run here; undefined when they can. */
export function doubleIsMissing(target = 'gfx1100'): string | undefined {
  if (!existsSync(library)) return `${library} is missing; run "node tools/build-double.mjs"`;
  for (const name of [target, target.startsWith('gfx9') ? 'lanes64' : 'lanes32']) {
    const manifest = path.join(kernels, name, 'manifest.json');
    if (!existsSync(manifest)) return `${manifest} is missing; run "npm run build:kernels -- --target ${name}"`;
  }
  return undefined;
}

export interface DoubleOptions {
  readonly target?: string;
  /** KIND@CALL:N, see test/doubles/hip/double.cc. It happens once, however often the process is started. */
  readonly fault?: string;
  readonly memoryBytes?: number;
}

/** A device that is not there: the environment in which `--device hip` finds it, and what crossed its bus. */
export class HipDouble {
  readonly environment: Readonly<Record<string, string>>;
  private readonly log: string;

  constructor(options: DoubleOptions = {}) {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    this.log = path.join(folder, 'log');
    const once = path.join(folder, 'once');
    if (options.fault !== undefined) writeFileSync(once, '');
    this.environment = {
      ROCM_PATH: path.join(packageRoot, 'build', 'double'),
      ROCMFORGE_DOUBLE_KERNELS: kernels,
      ROCMFORGE_DOUBLE_LOG: this.log,
      ROCMFORGE_DOUBLE_ARCH: options.target ?? 'gfx1100',
      ...(options.fault !== undefined && { ROCMFORGE_DOUBLE_FAULT: options.fault, ROCMFORGE_DOUBLE_ONCE: once }),
      ...(options.memoryBytes !== undefined && { ROCMFORGE_DOUBLE_MEMORY: String(options.memoryBytes) }),
    };
  }

  /** Lets this process and those it starts find the device. The driver reads it once: one double a test file. */
  install(): void {
    Object.assign(process.env, this.environment);
  }

  /** What was done on the device since it was made, in order: "in BYTES", "out BYTES", "graph LAUNCHES" or "KERNEL 0". */
  calls(): readonly string[] {
    return existsSync(this.log) ? readFileSync(this.log, 'utf8').trim().split('\n') : [];
  }
}
