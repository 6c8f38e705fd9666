import { createConnection, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Chunk, KeeperAnswer, KeeperRequest, KeeperState } from './messages.js';

/** Time for a keeper that is starting to listen, and interval of the tries. */
const CONNECT_MS = 10_000;
const RETRY_MS = 20;

/** An executor's connection to the keeper of its devices' memory. */
export class KeeperClient {
  private readonly waiting: { resolve(answer: KeeperAnswer): void; reject(error: Error): void }[] = [];

  /** The keeper's state when the connection was made. */
  state: KeeperState = { pid: 0, identity: '0', chunks: [], notes: {} };

  private constructor(private readonly socket: Socket) {
    // An idle keeper must not keep this process alive.
    socket.unref();
    const fail = (): void => {
      for (const { reject } of this.waiting.splice(0)) reject(new Error('the keeper has ended'));
    };
    socket.on('error', fail);
    socket.on('close', fail);
    const lines = createInterface({ input: socket });
    // It passes on the socket's errors.
    lines.on('error', () => undefined);
    lines.on('line', (line) => this.waiting.shift()?.resolve(JSON.parse(line) as KeeperAnswer));
  }

  /** @throws Error when nothing listens there in time */
  static async connect(path: string): Promise<KeeperClient> {
    const client = new KeeperClient(await connected(path));
    const answer = await client.ask({ do: 'list' });
    if (!('state' in answer)) throw new Error('the keeper does not say what it has');
    client.state = answer.state;
    return client;
  }

  /** @throws Error why the keeper has no such chunk */
  async allocate(device: number, name: string, bytes: number): Promise<Chunk> {
    const answer = await this.ask({ do: 'allocate', device, name, bytes });
    if ('chunk' in answer) return answer.chunk;
    throw new Error('error' in answer ? answer.error : 'the keeper answers something else');
  }

  async note(key: string, value: string): Promise<void> {
    await this.ask({ do: 'note', key, value });
  }

  private ask(request: KeeperRequest): Promise<KeeperAnswer> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.socket.write(`${JSON.stringify(request)}\n`);
    });
  }
}

async function connected(path: string): Promise<Socket> {
  const giveUpAt = performance.now() + CONNECT_MS;
  for (;;) {
    try {
      return await new Promise<Socket>((resolve, reject) => {
        const socket = createConnection(path, () => resolve(socket));
        socket.once('error', reject);
      });
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
