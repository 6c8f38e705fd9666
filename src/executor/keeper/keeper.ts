import { chmodSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { createLogger } from '../../shared/log.js';
import { loadAddon, type NativeDevice, type NativeSharing } from '../device/addon.js';
import { randomIdentity } from '../device/kept-memory.js';
import { type DevicesOptions, openDevices } from '../load/open-device.js';
import type { Chunk, KeeperAnswer, KeeperRequest } from './messages.js';

/** Options of a keeper. */
export interface KeeperOptions {
  /** Path of the socket that executors connect to. */
  readonly listen: string;
  /** As the executors have it. */
  readonly device: DevicesOptions;
}

/** Allocations of the keeper, by device and name, and the notes that executors leave with them. */
export class KeptChunks {
  private readonly chunks = new Map<string, Chunk>();
  private readonly notes: Record<string, string> = {};
  private readonly identity = String(randomIdentity());

  constructor(
    private readonly devices: readonly (Pick<NativeDevice, 'allocate'> & Pick<NativeSharing, 'exportMemory'>)[],
  ) {}

  /** Carries a request out. Never throws: what goes wrong is the answer. */
  answer(request: KeeperRequest): KeeperAnswer {
    switch (request.do) {
      case 'list': {
        const { identity, notes } = this;
        return { state: { pid: process.pid, identity, notes, chunks: [...this.chunks.values()] } };
      }
      case 'note':
        this.notes[request.key] = request.value;
        return { noted: true };
      case 'allocate':
        try {
          return { chunk: this.allocate(request.device, request.name, request.bytes) };
        } catch (error) {
          return { error: (error as Error).message };
        }
    }
  }

  private allocate(index: number, name: string, bytes: number): Chunk {
    const key = `${index} ${name}`;
    const before = this.chunks.get(key);
    if (before !== undefined) {
      if (before.bytes === bytes) return before;
      throw new Error(`${name} has ${before.bytes} bytes, not ${bytes}`);
    }
    const device = this.devices[index];
    if (device === undefined) throw new Error(`no device ${index}`);
    const handle = Buffer.from(device.exportMemory(device.allocate(bytes))).toString('base64');
    const chunk = { device: index, name, bytes, handle };
    this.chunks.set(key, chunk);
    return chunk;
  }
}

function answerTo(chunks: KeptChunks, line: string): KeeperAnswer {
  try {
    return chunks.answer(JSON.parse(line) as KeeperRequest);
  } catch {
    // An executor may be damaged; what it says is not to damage this process.
    return { error: 'not a request' };
  }
}

/** True if an NVIDIA GPU may be meant that this process would take from the executor. */
function mayBeExclusive({ kind }: DevicesOptions): boolean {
  if (kind !== 'cuda' && kind !== 'auto') return false;
  try {
    return loadAddon()
      .probeGpu('cuda')
      .devices.some(({ isExclusive }) => isExclusive === true);
  } catch {
    // No such driver: there is no such GPU.
    return false;
  }
}

/**
 * Keeps weights and KV blocks of a model in a GPU's memory while executors come and go. It runs no kernel and reads no model: what
 * happens to an executor does not happen to it. Ends with the gateway that started it.
 *
 * @throws RocmForgeError as `openDevices`
 */
export async function runKeeper(options: KeeperOptions): Promise<void> {
  const log = createLogger('keeper');
  loadAddon().dieWithParent();
  process.stdin.on('end', () => process.exit(0));
  process.stdin.on('error', () => process.exit(0));
  process.stdin.resume();
  // A terminal's signals are the gateway's to answer.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
  if (mayBeExclusive(options.device)) {
    log.info('a GPU admits one process at a time: its memory is not kept');
    process.exit(0);
  }
  const devices = openDevices(options.device);
  if (devices.some(({ isHost }) => isHost)) {
    log.info('no GPU is used: there is nothing to keep');
    process.exit(0);
  }
  const chunks = new KeptChunks(devices.map(({ native }) => native as NativeDevice & NativeSharing));
  const server = createServer((socket: Socket) => {
    socket.on('error', () => socket.destroy());
    const lines = createInterface({ input: socket });
    // It passes on the socket's errors: an executor that is killed resets the connection.
    lines.on('error', () => undefined);
    lines.on('line', (line) => socket.write(`${JSON.stringify(answerTo(chunks, line))}\n`));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.listen, resolve);
  });
  chmodSync(options.listen, 0o600);
  log.info({ devices: devices.map(({ description }) => description) }, 'keeping device memory');
}
