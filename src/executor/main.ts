import { chmodSync } from 'node:fs';
import { Server } from '@grpc/grpc-js';
import { ExecutorServiceService } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { bind, SERVER_OPTIONS } from '../shared/grpc/server.js';
import { strictService } from '../shared/grpc/strict.js';
import { createLogger, type Logger } from '../shared/log.js';
import { loadAddon, type NativeSharing } from './device/addon.js';
import type { Device } from './device/device.js';
import { describeDevices } from './device/device-group.js';
import { HostKeptMemory } from './device/kept-memory.js';
import { KeeperClient } from './keeper/client.js';
import { GpuKeptMemory } from './keeper/gpu-memory.js';
import type { LoadOptions } from './load/load-options.js';
import { type DevicesOptions, openDevices } from './load/open-device.js';
import { type ExecutorServerOptions, openExecutorServer } from './serve/executor-server.js';
import { FaultInjector, type PlantedFault } from './serve/fault-injection.js';
import { ExecutorService } from './serve/service.js';
import { loadKernels, standBy } from './serve/stand-by.js';

/** Options of an executor process. */
export interface ExecutorOptions extends ExecutorServerOptions {
  readonly device: DevicesOptions;
  /** Split of a model over several devices, and the shares of each if between layers; see {@link LoadOptions}. */
  readonly split?: LoadOptions['split'];
  readonly shares?: readonly number[] | undefined;
  /** Attention implementation of models; default: fused. */
  readonly attention?: LoadOptions['attention'] | undefined;
  /** End with the process that started this one: a gateway's executor must not outlive it. */
  readonly dieWithParent: boolean;
  /** File in which to keep what is being done on the device, for whoever asks why this process ended. */
  readonly faultRecord?: string | undefined;
  /** The model's file, or each part of it, that the gateway has open, inherited; absent: opened by the path of the load. */
  readonly modelDescriptors?: readonly number[] | undefined;
  /** Descriptor of memory for KV blocks and recurrent states that the gateway keeps when this process ends; absent: it has none. */
  readonly keptMemory?: number | undefined;
  /** Descriptor of memory for KV blocks that the gateway keeps while no model is loaded; absent: it has none. */
  readonly savedMemory?: number | undefined;
  /** Path of the socket of the process that keeps a GPU's memory; absent: there is none. */
  readonly keeper?: string | undefined;
  /** True if another executor is to fit on the device beside this one. */
  readonly hasSpare?: boolean | undefined;
  /** Opens no device before its parent writes to stdin. */
  readonly prestarted?: boolean | undefined;
  /** The least time a step gets before this executor calls itself unhealthy. */
  readonly stepTimeoutMs: number;
  /** Milliseconds for which a silent gateway keeps this executor from others. */
  readonly leaseMs: number;
  /** For tests: how long each step's answer is held back, and what goes wrong when. */
  readonly stepDelayMs: number;
  readonly fault?: PlantedFault | undefined;
}

/**
 * Runs an executor until it is told to end. Resolves when it listens.
 *
 * @throws RocmForgeError `INVALID_OPTION`, `ADDRESS_IN_USE`, `DEVICE_UNAVAILABLE`
 */
export async function runExecutor(options: ExecutorOptions): Promise<void> {
  const log = createLogger('executor');
  const { interceptors, tls } = openExecutorServer(options, log);
  let stop = (): void => process.exit(0);
  if (options.faultRecord !== undefined) openFaultRecord(options.faultRecord, log);
  if (options.dieWithParent) {
    loadAddon().dieWithParent();
    // The parent may have gone before the line above; its end of this pipe tells.
    process.stdin.on('end', () => stop());
    process.stdin.on('error', () => stop());
    process.stdin.resume();
  }
  const kernels = options.prestarted === true ? await standBy(options) : [];
  const devices = openDevices(options.device, (platform, reason) => log.info({ platform }, `not used: ${reason}`));
  await useKeptMemory(devices, options, log);
  const service = new ExecutorService(devices, log, options, {
    stepDelayMs: options.stepDelayMs,
    fault: options.fault && new FaultInjector(options.fault),
  });
  const server = new Server({ ...SERVER_OPTIONS, interceptors: [...interceptors] });
  server.addService(strictService(ExecutorServiceService), service.handlers);
  service.health.addTo(server);
  await bind(server, options.listen, { tls });
  if (options.listen.startsWith('unix:')) chmodSync(options.listen.slice('unix:'.length), 0o600);
  log.info({ listen: options.listen, device: describeDevices(devices) }, 'executor listening');
  void loadKernels(devices, kernels);
  stop = (): void => {
    log.info('executor stopping');
    server.forceShutdown();
    process.exit(service.exitCode);
  };
  // A gateway ends its executor by their pipe. What a terminal or a service manager sends to all processes is the
  // gateway's to answer: it may have streams to end first.
  const told = options.dieWithParent ? () => undefined : () => stop();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, told);
}

/** Without memory that outlives it, an executor is better than none: its successor computes again. */
async function useKeptMemory(devices: readonly Device[], options: ExecutorOptions, log: Logger): Promise<void> {
  const isHost = devices.every((device) => device.isHost);
  const { keptMemory, keeper } = options;
  try {
    if (isHost && keptMemory !== undefined) {
      const kept = new HostKeptMemory(keptMemory);
      for (const device of devices) device.kept = kept;
    }
    if (!isHost && keeper !== undefined) {
      const client = await KeeperClient.connect(keeper);
      for (const [index, device] of devices.entries())
        device.kept = new GpuKeptMemory(client, device.native as unknown as NativeSharing, index);
    }
  } catch (error) {
    log.warn({ err: error }, 'weights and KV blocks are lost with this executor');
  }
}

/** Without room for a record, an executor without one is better than none. */
function openFaultRecord(file: string, log: Logger): void {
  try {
    loadAddon().openFaultRecord(file);
  } catch (error) {
    log.warn({ err: error }, 'faults of this executor are not recorded');
  }
}
