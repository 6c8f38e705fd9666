import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import { type GpuPlatform, type GpuProperties, loadAddon } from '../device/addon.js';
import { launchedOn } from '../device/contract.js';
import { checkArguments, Device, HOPPER } from '../device/device.js';
import { allContracts } from '../kernels/index.js';
import { digestOf, kernelsRoot, readManifest, verifiedFile, verifyKernels } from './kernel-files.js';
import { limitQueues } from './prepared-driver.js';
import { usableProcessors } from './processors.js';

/** Instruction set levels that host kernels are built for, best first. `native` is whatever the build machine has. */
export const HOST_LEVELS = ['native', 'x86-64-v4-vnni', 'x86-64-v4', 'x86-64-v3'] as const;
export type HostLevel = (typeof HOST_LEVELS)[number];

/** `auto`: the first GPU that can be used, AMD's before NVIDIA's; the host where there is none and no GPU was asked for. */
export const DEVICE_KINDS = ['auto', 'hip', 'cuda', 'host'] as const;
export type DeviceKind = (typeof DEVICE_KINDS)[number];

/** Which device to open, and from where its kernels come. */
export interface DeviceOptions {
  readonly kind: DeviceKind;
  /** Which of the platform's GPUs; default: the first that can be used, integrated ones last. */
  readonly gpu?: number | undefined;
  /** Threads of the host device; default: all processors that this process may use, by its control group too. */
  readonly threads?: number | undefined;
  /** Folder with one sub-folder a target; default: the package's own. */
  readonly kernels?: string | undefined;
  /** Host kernels built for this instruction set level; default: the best that there is. */
  readonly level?: HostLevel | undefined;
  /** Index among the devices that a process opens; absent if there is one. */
  readonly number?: number | undefined;
}

/** Which devices to open. */
export interface DevicesOptions extends DeviceOptions {
  /** Several of one platform; of the host, whose processors they share, any numbers. Default: the one that `gpu` names. */
  readonly gpus?: readonly number[] | undefined;
}

/** Threads a block of every GPU kernel: `BLOCK` of `kernels/forge/`. */
const GPU_BLOCK = 256;

/** Told why a platform, or one of its GPUs, was passed over. */
export type OnRefused = (platform: GpuPlatform, reason: string) => void;

/**
 * Opens a device. Who names a GPU gets a GPU: `auto` does not fall back to the host then.
 *
 * @throws RocmForgeError `DEVICE_UNAVAILABLE` or `KERNELS_INVALID`, each naming what is missing and what to run; `SYSTEM_LIMIT` for more
 *   threads than the system gives; `INVALID_OPTION` for a GPU of the host
 */
export function openDevice(options: DeviceOptions, onRefused: OnRefused = () => undefined): Device {
  const { kind, gpu } = options;
  if (kind === 'host') {
    if (gpu === undefined) return openHost(options);
    throw new RocmForgeError(
      'INVALID_OPTION',
      'a GPU cannot be selected with --device host; leave --gpu and --gpus out',
      {
        option: 'gpu',
      },
    );
  }
  limitQueues();
  // The one that was asked for: its refusal is thrown as it is.
  const isNamed = kind !== 'auto' && gpu !== undefined;
  const refusals: RocmForgeError[] = [];
  const refuse = (platform: GpuPlatform, error: RocmForgeError): void => {
    refusals.push(error);
    if (!isNamed) onRefused(platform, error.message);
  };
  const found = (platform: GpuPlatform): readonly FoundGpu[] => {
    try {
      return gpusOf(platform, gpu);
    } catch (error) {
      refuse(platform, asRocmForgeError(error));
      return [];
    }
  };
  for (const candidate of gpuCandidates(kind === 'auto' ? ['hip', 'cuda'] : [kind], found)) {
    const { platform, ordinal, architecture } = candidate;
    try {
      return openOneGpu(candidate, options);
    } catch (error) {
      const { reason, message } = asRocmForgeError(error);
      const why = isNamed ? message : `${platform} GPU ${ordinal} (${architecture}): ${message}`;
      refuse(platform, new RocmForgeError(reason, why, {}, { cause: error }));
    }
  }
  if (kind === 'auto' && gpu === undefined) return openHost(options);
  const [only] = refusals;
  if (refusals.length === 1 && only !== undefined) throw only;
  const which = gpu === undefined ? 'no GPU can' : `GPU ${gpu} cannot`;
  const help = kind === 'auto' ? '; without --gpu and --gpus the CPU is used' : '';
  throw new RocmForgeError(
    'DEVICE_UNAVAILABLE',
    `${which} be used: ${refusals.map(({ message }) => message).join('; ')}${help}`,
  );
}

/**
 * Opens the devices that a model is split over, or the one that it is on.
 *
 * @throws RocmForgeError as {@link openDevice}; `INVALID_OPTION` for a device that is named twice, or devices of two kinds
 */
export function openDevices(options: DevicesOptions, onRefused?: OnRefused): readonly Device[] {
  const { gpus = [], ...each } = options;
  if (gpus.length < 2) return [openDevice({ ...each, gpu: gpus[0] ?? each.gpu }, onRefused)];
  if (new Set(gpus).size < gpus.length) {
    throw new RocmForgeError('INVALID_OPTION', `of GPUs ${gpus.join(', ')} one is named twice`, { option: 'gpus' });
  }
  const threads = Math.max(1, Math.floor((each.threads ?? usableProcessors()) / gpus.length));
  const devices: Device[] = [];
  for (const [number, gpu] of gpus.entries()) {
    // Which platform it is the first one tells.
    const kind = devices[0]?.kind ?? each.kind;
    devices.push(openDevice({ ...each, kind, gpu: kind === 'host' ? undefined : gpu, threads, number }, onRefused));
  }
  const other = devices.find(({ target }) => target !== devices[0]?.target);
  if (other !== undefined) {
    const kinds = `${devices[0]?.description} and ${other.description}`;
    throw new RocmForgeError('INVALID_OPTION', `one model is split over devices of one kind, not over ${kinds}`, {
      option: 'gpus',
    });
  }
  return devices;
}

/** Parts of AMD's processors, which share the host's memory. */
const INTEGRATED = /^gfx(90[29c]|1013|103[356]|1103|115[0-3])$/;

/** A GPU that a platform's driver finds. */
interface FoundGpu extends GpuProperties {
  readonly platform: GpuPlatform;
}

/**
 * GPUs in the order in which they are tried: the cards of each platform, then processors' own GPUs. A platform's driver is not loaded
 * before its cards are needed.
 */
export function* gpuCandidates<Platform extends string, Gpu extends { readonly architecture: string }>(
  platforms: readonly Platform[],
  found: (platform: Platform) => readonly Gpu[],
): Generator<Gpu> {
  const integrated: Gpu[] = [];
  for (const platform of platforms) {
    for (const gpu of found(platform)) {
      if (INTEGRATED.test(gpu.architecture)) integrated.push(gpu);
      else yield gpu;
    }
  }
  yield* integrated;
}

/**
 * The GPUs of a platform that may be used.
 *
 * @param wanted the only one
 * @throws RocmForgeError `DEVICE_UNAVAILABLE` where there is none
 */
function gpusOf(platform: GpuPlatform, wanted: number | undefined): readonly FoundGpu[] {
  let devices: readonly GpuProperties[];
  try {
    devices = loadAddon().probeGpu(platform).devices;
  } catch (error) {
    throw new RocmForgeError('DEVICE_UNAVAILABLE', `${platform}: ${(error as Error).message}`, {}, { cause: error });
  }
  const usable = wanted === undefined ? devices : devices.slice(wanted, wanted + 1);
  if (usable.length > 0) return usable.map((gpu) => ({ ...gpu, platform }));
  const found = devices.length === 0 ? 'none' : devices.map(({ name }, i) => `${i}: ${name}`).join(', ');
  throw new RocmForgeError('DEVICE_UNAVAILABLE', `${platform}: there is no GPU ${wanted ?? 0}; found: ${found}`);
}

/** @throws RocmForgeError as {@link openDevice} */
function openOneGpu({ platform, ordinal, ...properties }: FoundGpu, options: DeviceOptions): Device {
  const addon = loadAddon();
  const root = kernelsRoot(options);
  const target = targetFor(properties.architecture, root);
  const folder = path.join(root, target);
  verifyKernels(options, target);
  const files = readManifest(folder, target);
  const launchSizes = new Map(
    allContracts.map(({ name, threads = GPU_BLOCK, dynamicSharedBytes = 0 }) => [
      name,
      { threads, dynamicSharedBytes },
    ]),
  );
  const kernels = files.flatMap(({ file, kernels: described = [] }) =>
    described.map((kernel) => ({
      name: kernel.name,
      file: path.join(folder, file),
      argumentBytes: kernel.arguments.map(({ bytes }) => bytes),
      ...launchSizes.get(kernel.name),
    })),
  );
  const known = new Map(kernels.map(({ name, argumentBytes: bytes }) => [name, bytes]));
  for (const contract of launchedOn(allContracts, target === HOPPER ? 'hopper' : 'portable')) {
    const bytes = known.get(contract.name);
    if (bytes === undefined) {
      throw new RocmForgeError(
        'KERNELS_INVALID',
        `${folder} holds no kernel ${contract.name}; run "npm run build:kernels -- --target ${target}"`,
      );
    }
    checkArguments(contract, bytes);
  }
  const wave = files.flatMap((file) => file.kernels ?? [])[0]?.wave ?? 0;
  try {
    const native = new addon.Device({ platform, ordinal, wave, block: GPU_BLOCK, kernels, ...numbered(options) });
    const device = new Device(native, platform, target, { ordinal, ...properties }, digestOf(files));
    device.opensHost = () => openHost({ ...options, number: undefined });
    return device;
  } catch (error) {
    throw new RocmForgeError('DEVICE_UNAVAILABLE', `${platform}: ${(error as Error).message}`, {}, { cause: error });
  }
}

/** LLVM's generic targets: one code object for all of a kind, of which later cards may be. */
const GENERIC: readonly (readonly [RegExp, string])[] = [
  [/^gfx11[05][0-9a-f]$/, 'gfx11-generic'],
  [/^gfx120[0-9a-f]$/, 'gfx12-generic'],
];

/**
 * The built target that runs on an architecture: AMD's must be the very one, or the generic one of its kind; NVIDIA's runs on
 * any of the same major version that is not older.
 *
 * @param root the folder with one sub-folder a target
 * @throws RocmForgeError `KERNELS_INVALID` when there is none, with what to run
 */
export function targetFor(architecture: string, root: string): string {
  const built = existsSync(root) ? readdirSync(root) : [];
  if (built.includes(architecture)) return architecture;
  const version = /^sm_(\d+)(\d)$/.exec(architecture);
  const older = Array.from({ length: Number(version?.[2] ?? 0) }, (_, i) => `sm_${version?.[1]}${i}`).reverse();
  const compatible = older.find((target) => built.includes(target));
  if (compatible !== undefined) return compatible;
  const generic = GENERIC.find(([kind]) => kind.test(architecture))?.[1];
  if (generic !== undefined && built.includes(generic)) return generic;
  throw new RocmForgeError(
    'KERNELS_INVALID',
    `no kernels for ${architecture} in ${root}; run "npm run build:kernels -- --target ${architecture}"`,
  );
}

function openHost(options: DeviceOptions): Device {
  const addon = loadAddon();
  const folder = path.join(kernelsRoot(options), 'host');
  const best = addon.hostLevel();
  if (best === '') {
    throw new RocmForgeError(
      'DEVICE_UNAVAILABLE',
      'this processor has no AVX2; x86-64-v3 is the lowest level that is built',
    );
  }
  const supported = HOST_LEVELS.filter((level, i) => level === 'native' || i >= HOST_LEVELS.indexOf(best as HostLevel));
  if (options.level !== undefined && !supported.includes(options.level)) {
    throw new RocmForgeError('DEVICE_UNAVAILABLE', `this processor has ${best}, not ${options.level}`);
  }
  const candidates = options.level === undefined ? supported : [options.level];
  const name = candidates.find((candidate) => existsSync(path.join(folder, `${candidate}.so`)));
  if (name === undefined) {
    throw new RocmForgeError(
      'KERNELS_INVALID',
      `no host kernels for ${candidates.at(-1)} in ${folder}; run "npm run build:kernels -- --target host"`,
    );
  }
  const files = readManifest(folder, 'host');
  const library = verifiedFile(folder, `${name}.so`, 'host', files);
  const code = digestOf(files.filter(({ file }) => file === `${name}.so`));
  const threads = options.threads ?? usableProcessors();
  try {
    return new Device(
      new addon.Device({ library, threads, ...numbered(options) }),
      'host',
      name,
      undefined,
      code,
      threads,
    );
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'EAGAIN') throw new RocmForgeError('KERNELS_INVALID', message, {}, { cause: error });
    throw new RocmForgeError(
      'SYSTEM_LIMIT',
      `${message} for the CPU backend; lower --threads (usable processors: ${usableProcessors()}), or raise the limit of ` +
        'processes and threads (TasksMax, --pids-limit, ulimit -u)',
    );
  }
}

const numbered = ({ number }: DeviceOptions) => (number === undefined ? {} : { number });
