import { mkdtempSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

/** Stands between a gateway and an executor's socket, and does to the bytes what a test wants. */
export class SocketProxy {
  readonly address: string;
  private readonly server: net.Server;
  private readonly pairs = new Set<readonly [gateway: net.Socket, executor: net.Socket]>();
  /** Connections made so far. */
  connections = 0;

  /** @param target `unix:PATH` of the executor */
  constructor(target: string) {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'proxy.sock');
    this.address = `unix:${file}`;
    this.server = net.createServer((gateway) => {
      this.connections += 1;
      const executor = net.connect(target.slice('unix:'.length));
      const pair = [gateway, executor] as const;
      this.pairs.add(pair);
      gateway.pipe(executor);
      executor.pipe(gateway);
      for (const socket of pair) {
        socket.on('error', () => undefined);
        socket.on('close', () => {
          this.pairs.delete(pair);
          gateway.destroy();
          executor.destroy();
        });
      }
    });
    this.server.listen(file);
  }

  /** Ends every connection at once. */
  cut(): void {
    for (const [gateway, executor] of this.pairs) {
      gateway.destroy();
      executor.destroy();
    }
  }

  /** Nothing comes through any more on the connections that there are, and neither end hears of it. */
  freeze(): void {
    for (const [gateway, executor] of this.pairs) {
      gateway.unpipe(executor);
      executor.unpipe(gateway);
      gateway.resume();
      executor.resume();
    }
  }

  /** Sends bytes to the gateway that no executor sent. */
  inject(bytes: Buffer): void {
    for (const [gateway] of this.pairs) gateway.write(bytes);
  }

  close(): void {
    this.cut();
    this.server.close();
  }
}
