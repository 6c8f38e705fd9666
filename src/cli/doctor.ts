import { existsSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type GpuPlatform, loadAddon } from '../executor/device/addon.js';
import { openDevice } from '../executor/device/open-device.js';
import { allContracts } from '../executor/kernels/contracts/index.js';
import { defaultStateFolder, describeFault, readFaults } from '../shared/fault-log.js';
import { packageRoot, packageVersion } from '../shared/package.js';

const FAULTS_SHOWN = 5;

/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'missing' | 'failed' | 'not built' | 'noted';
  readonly detail: string;
}

/**
 * `rocmforge doctor`: what of this installation works on this machine, each line tried and not assumed.
 *
 * @param stateFolder where gateways keep their last faults
 */
export function examine(stateFolder = defaultStateFolder()): Finding[] {
  return [
    { check: 'rocmforge', state: 'ok', detail: packageVersion },
    { check: 'node', state: 'ok', detail: `${process.version} ${process.platform} ${process.arch}` },
    {
      check: 'processor',
      state: 'ok',
      detail: `${os.cpus()[0]?.model ?? 'unknown'}, ${os.availableParallelism()} usable`,
    },
    attempt('native addon', () => `host level ${loadAddon().hostLevel() || 'below x86-64-v3'}`),
    attempt('host device', () => {
      const device = openDevice({ kind: 'host' });
      for (const contract of allContracts) device.checkKernel(contract);
      return `${device.description}, ${allContracts.length} kernels match their contracts`;
    }),
    ...codeObjects(),
    gpu('AMD GPU', 'hip'),
    gpu('NVIDIA GPU', 'cuda'),
    ...lastFaults(stateFolder),
  ];
}

/** What the platform's driver finds, in its own words when that is nothing. */
function gpu(check: string, platform: GpuPlatform): Finding {
  try {
    const { devices, library } = loadAddon().probeGpu(platform);
    const found = devices.map(({ name, architecture }) => `${name} (${architecture})`).join(', ');
    if (devices.length > 0) return { check, state: 'ok', detail: `${found}, by ${library}` };
    return { check, state: 'missing', detail: `${library} finds none` };
  } catch (error) {
    return { check, state: 'missing', detail: (error as Error).message };
  }
}

/** The last executors that ended without being asked to, latest first. */
function lastFaults(stateFolder: string): Finding[] {
  const faults = readFaults(stateFolder);
  if (faults.length === 0) return [{ check: 'faults', state: 'ok', detail: `none kept in ${stateFolder}` }];
  return faults
    .slice(-FAULTS_SHOWN)
    .reverse()
    .map((fault) => ({ check: `fault ${fault.at}`, state: 'noted', detail: describeFault(fault) }));
}

/** The findings as a table. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings.map(({ check, state, detail }) => `${check.padEnd(width)}  ${state.padEnd(9)}  ${detail}`).join('\n');
}

function attempt(check: string, probe: () => string): Finding {
  try {
    return { check, state: 'ok', detail: probe() };
  } catch (error) {
    return { check, state: 'failed', detail: (error as Error).message };
  }
}

function codeObjects(): Finding[] {
  const folder = path.join(packageRoot, 'build', 'kernels');
  const targets = existsSync(folder) ? readdirSync(folder).filter((name) => name.startsWith('gfx')) : [];
  if (targets.length === 0) {
    const detail = 'none built; "npm run build:kernels -- --target gfx1100" builds them';
    return [{ check: 'code objects', state: 'missing', detail }];
  }
  return targets.map((target) =>
    attempt(`code objects ${target}`, () => {
      const manifest = JSON.parse(readFileSync(path.join(folder, target, 'manifest.json'), 'utf8')) as {
        files: unknown[];
        compiler: string;
      };
      return `${manifest.files.length} files, ${manifest.compiler}`;
    }),
  );
}
