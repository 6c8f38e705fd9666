import { readFileSync } from 'node:fs';
import os from 'node:os';
import { type GpuPlatform, type GpuProbe, loadAddon } from '../../executor/device/addon.js';
import { launchedOn } from '../../executor/device/contract.js';
import { allContracts } from '../../executor/kernels/index.js';
import { type DeviceOptions, openDevice } from '../../executor/load/open-device.js';
import { usableProcessors } from '../../executor/load/processors.js';
import { selfTest } from '../../executor/load/self-test.js';
import { defaultStateFolder, describeFault, readFaults } from '../../shared/fault-log.js';
import { packageVersion } from '../../shared/package.js';
import { driverFindings } from './amd-driver.js';
import { environmentFindings } from './amd-environment.js';
import { runtimeMissing } from './amd-runtime.js';
import { cardsOf } from './cards.js';
import { builtFor, codeObjectFindings } from './code-objects.js';
import type { Finding } from './finding.js';
import { type Machine, machineAt } from './machine.js';

const FAULTS_SHOWN = 5;

/**
 * `rocmforge doctor`: what of this installation works on this machine. What stops an AMD card is looked up in the order in which
 * it is met: card, driver, device nodes, variables, library, code objects. Then each device is tried, and not assumed.
 *
 * @param stateFolder where gateways keep their last faults
 */
export async function examine(stateFolder = defaultStateFolder(), machine = machineAt()): Promise<Finding[]> {
  return [
    { check: 'rocmforge', state: 'ok', detail: packageVersion },
    { check: 'node', state: 'ok', detail: `${process.version} ${process.platform} ${process.arch}` },
    { check: 'system', state: 'ok', detail: `${distribution(machine)}, kernel ${machine.kernelRelease}` },
    {
      check: 'processor',
      state: 'ok',
      detail: `${os.cpus()[0]?.model ?? 'unknown'}, ${usableProcessors()} usable`,
    },
    await attempt('native addon', () => `host level ${loadAddon().hostLevel() || 'below x86-64-v3'}`),
    await attempt('host device', () => tried({ kind: 'host' })),
    ...cardFindings(machine),
    ...(await gpus('hip', machine)),
    ...(await gpus('cuda', machine)),
    ...lastFaults(stateFolder),
  ];
}

/**
 * Findings about AMD's cards without any library of AMD's.
 *
 * @param kernels the folder of code objects, one sub-folder a target; default: the package's
 */
export function cardFindings(machine: Machine, kernels?: string): Finding[] {
  const cards = cardsOf(machine);
  return [
    ...driverFindings(machine, cards),
    ...environmentFindings(machine, cards, (target) => builtFor(target, kernels) !== undefined),
    ...codeObjectFindings(cards, kernels),
  ];
}

const distribution = (machine: Machine): string =>
  /^PRETTY_NAME="?([^"\n]*)/m.exec(machine.read('/etc/os-release') ?? '')?.[1] ?? 'Linux';

/** The platform's library in its own words, and each GPU that it finds. */
async function gpus(platform: GpuPlatform, machine: Machine): Promise<Finding[]> {
  const check = platform === 'hip' ? 'HIP runtime' : 'CUDA driver';
  let probe: GpuProbe;
  try {
    probe = loadAddon().probeGpu(platform);
  } catch (error) {
    const why = (error as Error).message;
    if (platform === 'hip') return [runtimeMissing(machine, why, cardsOf(machine).length)];
    return [{ check, state: 'missing', detail: `${why}; only NVIDIA’s cards need it` }];
  }
  const { devices, library, version } = probe;
  const told = `${devices.length === 0 ? 'no GPU' : devices.length}, by ${loadedFrom(library)}, version ${version}`;
  if (devices.length === 0) return [{ check, state: 'missing', detail: told }];
  const findings: Finding[] = [{ check, state: 'ok', detail: told }];
  for (const { ordinal, name, architecture, totalBytes } of devices) {
    const told = `${name}, ${architecture}, ${(totalBytes / 1e9).toFixed(1)} GB`;
    const { state, detail } = await attempt('', () => tried({ kind: platform, gpu: ordinal }));
    findings.push({ check: `${platform} ${ordinal}`, state, detail: `${told}: ${detail}` });
  }
  return findings;
}

/** The file that the loader chose for a library's name. */
function loadedFrom(library: string): string {
  const name = library.slice(library.lastIndexOf('/') + 1);
  const mapped = readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .find((line) => line.slice(line.lastIndexOf('/') + 1).startsWith(name));
  return mapped === undefined ? library : mapped.slice(mapped.indexOf('/'));
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
    .map((fault) => ({ check: `fault ${fault.at}`, state: 'info', detail: describeFault(fault) }));
  if (unreadable > 0) {
    const detail = `${unreadable} unreadable in ${stateFolder}: no gateway wrote them so`;
    findings.push({ check: 'faults', state: 'info', detail });
  }
  if (findings.length > 0) return findings;
  return [{ check: 'faults', state: 'ok', detail: `none kept in ${stateFolder}` }];
}

async function attempt(check: string, probe: () => string | Promise<string>): Promise<Finding> {
  try {
    return { check, state: 'ok', detail: await probe() };
  } catch (error) {
    return { check, state: 'failed', detail: (error as Error).message };
  }
}
