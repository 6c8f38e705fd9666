import type { NativeSharing } from '../device/addon.js';
import { type KeptMemory, type KeptRange, keptBytes, randomIdentity } from '../device/kept-memory.js';
import type { KeeperClient } from './client.js';

/** Part of a chunk that has not been given out. */
interface Open {
  next: number;
  readonly end: number;
}

/** Memory of one GPU that the keeper has allocated, imported into this process. */
export class GpuKeptMemory implements KeptMemory {
  private open: Open | undefined;
  private isOther = false;
  private known: bigint | undefined;

  /** @param device its index among those of the model */
  constructor(
    private readonly keeper: KeeperClient,
    private readonly native: Pick<NativeSharing, 'importMemory'>,
    private readonly device: number,
  ) {}

  async reserve(name: string, bytes: number): Promise<void> {
    this.open = undefined;
    try {
      const { handle } = await this.keeper.allocate(this.device, name, bytes);
      const address = this.native.importMemory(Buffer.from(handle, 'base64'));
      this.open = { next: address, end: address + bytes };
    } catch {
      // No room, another size than before, or a driver that shares none: its own allocations will say what the matter is.
      this.isOther = true;
    }
  }

  allocate(bytes: number): KeptRange | undefined {
    const { open } = this;
    if (open === undefined || open.next + bytes > open.end) {
      this.isOther = true;
      return undefined;
    }
    const address = open.next;
    open.next += keptBytes([bytes]);
    return { address, bytes };
  }

  /** Chunks stay imported: the process that loaded a model from them ends with it. */
  release(): void {}

  identity(): bigint {
    this.known ??= this.isOther ? randomIdentity() : BigInt(this.keeper.state.identity);
    return this.known;
  }

  noted(key: string): string | undefined {
    return this.keeper.state.notes[`${this.device} ${key}`];
  }

  async note(key: string, value: string): Promise<void> {
    await this.keeper.note(`${this.device} ${key}`, value).catch(() => undefined);
  }
}
