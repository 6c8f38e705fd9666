import { existsSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type GpuPlatform, type GpuProbe, loadAddon } from '../executor/device/addon.js';
import { launchedOn } from '../executor/device/contract.js';
import { allContracts } from '../executor/kernels/index.js';
import { type DeviceOptions, openDevice } from '../executor/open-device.js';
import { selfTest } from '../executor/self-test.js';
import { defaultStateFolder, describeFault, readFaults } from '../shared/fault-log.js';
import { packageRoot, packageVersion } from '../shared/package.js';

const FAULTS_SHOWN = 5;

/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'missing' | 'failed' | 'noted';
  readonly detail: string;
}

/**
 * `rocmforge doctor`: what of this installation works on this machine, each line tried and not assumed.
 *
 * @param stateFolder where gateways keep their last faults
 */
export async function examine(stateFolder = defaultStateFolder()): Promise<Finding[]> {
  return [
    { check: 'rocmforge', state: 'ok', detail: packageVersion },
    { check: 'node', state: 'ok', detail: `${process.version} ${process.platform} ${process.arch}` },
    {
      check: 'processor',
      state: 'ok',
      detail: `${os.cpus()[0]?.model ?? 'unknown'}, ${os.availableParallelism()} usable`,
    },
    await attempt('native addon', () => `host level ${loadAddon().hostLevel() || 'below x86-64-v3'}`),
    await attempt('host device', () => tried({ kind: 'host' })),
    ...(await codeObjects()),
    ...(await gpus('hip')),
    ...(await gpus('cuda')),
    ...lastFaults(stateFolder),
  ];
}

const PLATFORMS = {
  hip: { check: 'AMD GPUs', advice: 'install ROCm’s runtime (libamdhip64.so) or set ROCM_PATH, and the amdgpu driver' },
  cuda: { check: 'NVIDIA GPUs', advice: 'install NVIDIA’s driver (libcuda.so.1)' },
} as const;

/** The platform's library in its own words, and each GPU that it finds. */
async function gpus(platform: GpuPlatform): Promise<Finding[]> {
  const { check, advice } = PLATFORMS[platform];
  const missing = (why: string): Finding[] => [{ check, state: 'missing', detail: `${why}; to use one, ${advice}` }];
  let probe: GpuProbe;
  try {
    probe = loadAddon().probeGpu(platform);
  } catch (error) {
    return missing((error as Error).message);
  }
  const { devices, library, version } = probe;
  if (devices.length === 0) return missing(`${library} finds none`);
  const findings: Finding[] = [{ check, state: 'ok', detail: `${devices.length}, by ${library}, version ${version}` }];
  for (const { ordinal, name, architecture, totalBytes } of devices) {
    const told = `${name}, ${architecture}, ${(totalBytes / 1e9).toFixed(1)} GB`;
    const { state, detail } = await attempt('', () => tried({ kind: platform, gpu: ordinal }));
    findings.push({ check: `${platform} ${ordinal}`, state, detail: `${told}: ${detail}` });
  }
  return findings;
}

/** Opens a device, holds its kernels against their contracts, and runs some. */
async function tried(options: DeviceOptions): Promise<string> {
  const device = openDevice(options);
  const launched = launchedOn(allContracts, device.deviceClass);
  for (const contract of launched) device.checkKernel(contract);
  await selfTest(device);
  return `${device.description}, ${launched.length} kernels match their contracts, self-test passed`;
}

/** The last executors that ended without being asked to, latest first. */
function lastFaults(stateFolder: string): Finding[] {
  const { faults, unreadable } = readFaults(stateFolder);
  const findings: Finding[] = faults
    .slice(-FAULTS_SHOWN)
    .reverse()
    .map((fault) => ({ check: `fault ${fault.at}`, state: 'noted', detail: describeFault(fault) }));
  if (unreadable > 0) {
    const detail = `${unreadable} unreadable in ${stateFolder}: no gateway wrote them so`;
    findings.push({ check: 'faults', state: 'noted', detail });
  }
  if (findings.length > 0) return findings;
  return [{ check: 'faults', state: 'ok', detail: `none kept in ${stateFolder}` }];
}

/** The findings as a table. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings.map(({ check, state, detail }) => `${check.padEnd(width)}  ${state.padEnd(9)}  ${detail}`).join('\n');
}

async function attempt(check: string, probe: () => string | Promise<string>): Promise<Finding> {
  try {
    return { check, state: 'ok', detail: await probe() };
  } catch (error) {
    return { check, state: 'failed', detail: (error as Error).message };
  }
}

async function codeObjects(): Promise<Finding[]> {
  const folder = path.join(packageRoot, 'build', 'kernels');
  const targets = existsSync(folder) ? readdirSync(folder).filter((name) => /^(gfx|sm_)/.test(name)) : [];
  if (targets.length === 0) {
    const detail = 'none built; "npm run build:kernels -- --target gfx1100" builds them';
    return [{ check: 'code objects', state: 'missing', detail }];
  }
  const findings = targets.map((target) =>
    attempt(`code objects ${target}`, () => {
      const manifest = JSON.parse(readFileSync(path.join(folder, target, 'manifest.json'), 'utf8')) as {
        files: unknown[];
        compiler: string;
      };
      return `${manifest.files.length} files, ${manifest.compiler}`;
    }),
  );
  return await Promise.all(findings);
}
