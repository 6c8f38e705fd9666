import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { RocmForgeClient } from '../../client/index.js';
import { startGateway } from '../../gateway/main.js';
import { removeOnSignals } from '../../shared/exit-removal.js';
import { packageRoot } from '../../shared/package.js';
import type { Connection } from '../common/client.js';
import type { ModelOptionValues } from '../common/options.js';
import { writeNotice } from '../common/output.js';
import { temporaryFolder } from '../common/temporary-folder.js';
import { gatewayOptions } from '../serve/gateway-options.js';

type Options = ModelOptionValues & { readonly model: string };

/**
 * Starts a gateway in a process of its own: what a client measures is then not its own work.
 *
 * @throws Error it ended before it served; it has said why on stderr
 */
export async function connectToProcess(options: Options): Promise<Connection> {
  const { folder, remove } = temporaryFolder();
  const listen = `unix:${path.join(folder, 'gateway.sock')}`;
  const child = fork(path.join(packageRoot, 'dist', 'cli', 'bench', 'gateway-process.js'));
  const ended = once(child, 'exit').then(([code]) => {
    remove();
    return code;
  });
  child.send({ ...options, listen });
  const first = await Promise.race([once(child, 'message').then(() => 'ready'), ended]);
  if (first !== 'ready') throw new Error(`the gateway ended with code ${first}`);
  const client = new RocmForgeClient(listen);
  return { client, close: () => close(child, client, ended) };
}

async function close(child: ChildProcess, client: RocmForgeClient, ended: Promise<unknown>): Promise<void> {
  client.close();
  child.disconnect();
  await ended;
}

/** The process itself: serves with the options that it is sent until its parent lets go of it. */
function run(): void {
  removeOnSignals();
  process.once('message', async (options: Options & { readonly listen: string }) => {
    try {
      const gateway = await startGateway(gatewayOptions(options));
      process.once('disconnect', () => gateway.stop().then(() => process.exit(0)));
      process.send?.('ready');
    } catch (error) {
      writeNotice(`${error instanceof Error ? error.message : error}\n`);
      process.exit(1);
    }
  });
}

if (process.argv[1]?.endsWith('gateway-process.js') && process.send) run();
