import { closeSync, ftruncate } from 'node:fs';
import { promisify } from 'node:util';
import type { Logger } from '../../../shared/log.js';
import { loadNativeAddon } from '../../../shared/native-addon.js';
import type { ExecutorProcessOptions } from './executor-process.js';
import { KeeperProcess, mayHaveGpu } from './keeper-process.js';

const empty = promisify(ftruncate);

/**
 * Memory that outlives executors, which use it one after the other: of the host, which this process holds, for KV blocks and
 * recurrent states; of a GPU, which a process of its own holds, for weights as well. Empty before an executor has written to it.
 */
export class KeptMemory {
  private descriptor: number | undefined;
  private savedDescriptor: number | undefined;
  private releasing = Promise.resolve();
  private keeper: KeeperProcess | undefined;
  /** No GPU is used, or its memory cannot be shared. */
  private isWithoutKeeper = false;

  /** @param onLost called when the process that holds a GPU's memory has ended by itself */
  constructor(
    private readonly log: Logger,
    private readonly onLost: () => void,
  ) {}

  /** Options of an executor that uses it. @param device as far as it is known */
  optionsFor(spawn: ExecutorProcessOptions): Pick<ExecutorProcessOptions, 'keptMemory' | 'keeper'> {
    const keeper = mayHaveGpu(spawn.device) && !this.isWithoutKeeper ? this.keeperFor(spawn) : undefined;
    return { keptMemory: keeper === undefined ? this.ofHost() : undefined, keeper: keeper?.socket };
  }

  /** True if it is a GPU's, as far as is known. */
  get isOfGpu(): boolean {
    return this.keeper !== undefined;
  }

  /** Gives the memory back once no executor has it. */
  async release(): Promise<void> {
    if (this.descriptor !== undefined) closeSync(this.descriptor);
    this.descriptor = undefined;
    const { keeper } = this;
    this.keeper = undefined;
    await keeper?.end();
  }

  /** Memory of the host that executors copy KV blocks to before they are unloaded; undefined: the system has none. */
  saved(): number | undefined {
    this.savedDescriptor ??= this.create('rocmforge-saved-kv', 'KV blocks of an unloaded model are lost');
    return this.savedDescriptor;
  }

  /** Gives back what is in it: on another thread, as the system takes some 0.2 s for each GB. */
  async releaseSaved(): Promise<void> {
    const { savedDescriptor } = this;
    if (savedDescriptor === undefined) return;
    const releasing = this.releasing
      .then(() => empty(savedDescriptor, 0))
      .catch((error) => this.log.warn({ err: error }, 'memory of KV blocks of an unloaded model is not given back'));
    this.releasing = releasing;
    await releasing;
  }

  /** Gives it up once no executor has it. */
  closeSaved(): void {
    const { savedDescriptor } = this;
    if (savedDescriptor !== undefined) void this.releasing.then(() => closeSync(savedDescriptor));
    this.savedDescriptor = undefined;
  }

  private ofHost(): number | undefined {
    this.descriptor ??= this.create('rocmforge-kv', 'the KV cache of an executor is lost with it');
    return this.descriptor;
  }

  private create(name: string, otherwise: string): number | undefined {
    try {
      return loadNativeAddon<{ createSharedMemory(name: string): number }>().createSharedMemory(name);
    } catch (error) {
      this.log.warn({ err: error }, otherwise);
      return undefined;
    }
  }

  private keeperFor(spawn: ExecutorProcessOptions): KeeperProcess | undefined {
    if (this.keeper !== undefined) return this.keeper;
    try {
      const keeper = new KeeperProcess(spawn, this.log);
      this.keeper = keeper;
      void keeper.exited.then((end) => {
        if (this.keeper !== keeper) return;
        this.keeper = undefined;
        this.isWithoutKeeper = end !== 'lost';
        if (end === 'unneeded') return;
        const { pid: keeperPid, error } = keeper;
        // An executor finds the same devices, and its error is the one that is reported.
        const level = error?.reason === 'DEVICE_UNAVAILABLE' ? 'debug' : 'warn';
        const why = error === undefined ? '' : `: ${error.message}`;
        this.log[level]({ keeperPid, end }, `the keeper of device memory has ended${why}`);
        if (end === 'lost') this.onLost();
      });
    } catch (error) {
      this.log.warn({ err: error }, 'weights and KV cache of an executor are lost with it');
    }
    return this.keeper;
  }
}
