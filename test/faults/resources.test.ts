import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess } from '../support/command-line.js';
import { type Generated, generate, request } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const model = writeRandomModel();
const message = request({
  text: 'the old fox',
  sampling: { temperature: 0.8, seed: 4n },
  stop: { maxTokens: 100, ignoreEos: true },
});

interface Surroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** File descriptor of its stderr; default: a pipe. */
  readonly stderr?: number | 'pipe';
  /** Command of the shell that starts it, such as `ulimit -n 64`. */
  readonly shell?: string;
  readonly metricsPort?: number;
  readonly stateFolder?: string;
}

interface Served {
  readonly child: ChildProcess;
  readonly client: InferenceServiceClient;
  readonly port: number;
  /** The running executor's process id. */
  executor(): number;
  stop(): Promise<void>;
}

/** A gateway as a process among scarce things. */
async function serve(surroundings: Surroundings = {}): Promise<Served> {
  const { env = {}, stderr = 'pipe', shell = 'true', stateFolder, metricsPort } = surroundings;
  const state = stateFolder ?? mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const command = [process.execPath, path.join(packageRoot, 'dist', 'cli', 'main.js'), 'serve'];
  const args = ['--model', model, '--listen', '127.0.0.1:0', '--device', 'host', '--step-delay-ms', '5'];
  if (metricsPort !== undefined) args.push('--metrics-listen', `127.0.0.1:${metricsPort}`);
  const child = spawn('bash', ['-c', `${shell}; exec "$@"`, 'bash', ...command, ...args, '--state-dir', state], {
    env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'info', ...env },
    stdio: ['ignore', 'pipe', stderr],
  });
  const port = await new Promise<number>((resolve, reject) => {
    let output = '';
    child.stdout?.on('data', (data) => {
      output += data;
      const found = /^serving .* on 127\.0\.0\.1:(\d+)/m.exec(output);
      if (found) resolve(Number(found[1]));
    });
    child.on('close', (code) => reject(new Error(`ended with ${code}: ${output}`)));
  });
  const client = new InferenceServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  return {
    child,
    client,
    port,
    executor: () => childOf(child.pid as number),
    stop: async () => {
      client.close();
      await endProcess(child, 'SIGKILL');
    },
  };
}

function childOf(parent: number): number {
  const found = readdirSync('/proc').find((name) => {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))?.[1]) === parent;
    } catch {
      return false;
    }
  });
  return Number(found);
}

/** A stream in whose middle something is taken away and the executor is killed. */
async function disturbed(server: Served, disturb: () => unknown): Promise<Generated> {
  const running = generate(server.client, message);
  running.catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 150));
  await disturb();
  process.kill(server.executor(), 'SIGKILL');
  return running;
}

/**
 * File descriptors of a gateway to be starved: what its start takes (Node reads the modules of one depth side by side,
 * about a hundred) with room, and fewer than the connections that are opened to it.
 */
const FILES = 160;
const CONNECTIONS = 2 * FILES;

describe('a gateway whose executor is killed', () => {
  it('when there is no temporary folder any more goes on', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const server = await serve({ env: { TMPDIR: folder } });
    try {
      const { tokenIds } = await generate(server.client, message);
      const again = await disturbed(server, () => rmSync(folder, { recursive: true }));
      expect(again.tokenIds).toEqual(tokenIds);
    } finally {
      await server.stop();
    }
  });

  it('when a temporary folder has too long a path for a socket goes on', async () => {
    const folder = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'x'.repeat(90));
    mkdirSync(folder);
    const server = await serve({ env: { TMPDIR: folder } });
    try {
      const { tokenIds } = await generate(server.client, message);
      expect((await disturbed(server, () => undefined)).tokenIds).toEqual(tokenIds);
    } finally {
      await server.stop();
    }
  });

  const metricsPort = 20_000 + (process.pid % 20_000);
  it.each([
    ['all file descriptors that it may have are in use', {}],
    ['connections to its metrics take all files that they can', { metricsPort }],
  ])('when %s goes on', async (_what, options) => {
    const server = await serve({ shell: `ulimit -n ${FILES}`, ...options });
    const sockets: net.Socket[] = [];
    try {
      const { tokenIds } = await generate(server.client, message);
      const again = await disturbed(server, async () => {
        for (const port of [...Object.values(options), server.port]) {
          for (let i = 0; i < CONNECTIONS; i++) {
            const socket = net.connect(port, '127.0.0.1');
            socket.on('error', () => undefined);
            sockets.push(socket);
          }
        }
        await new Promise((resolve) => setTimeout(resolve, 300));
      });
      expect(again.tokenIds).toEqual(tokenIds);
      expect(server.child.exitCode).toBeNull();
    } finally {
      for (const socket of sockets) socket.destroy();
      await server.stop();
    }
  });

  it('when nobody reads its log any more goes on', async () => {
    const server = await serve();
    try {
      server.child.stderr?.resume();
      const { tokenIds } = await generate(server.client, message);
      const again = await disturbed(server, () => server.child.stderr?.destroy());
      expect(again.tokenIds).toEqual(tokenIds);
      expect((await generate(server.client, message)).tokenIds).toEqual(tokenIds);
      expect(server.child.exitCode).toBeNull();
    } finally {
      await server.stop();
    }
  });

  it('when the disk of its log is full goes on', async () => {
    const server = await serve({ stderr: openSync('/dev/full', 'w') });
    try {
      const { tokenIds } = await generate(server.client, message);
      expect((await disturbed(server, () => undefined)).tokenIds).toEqual(tokenIds);
      expect(server.child.exitCode).toBeNull();
    } finally {
      await server.stop();
    }
  });

  it('when the reader of its log stands still goes on, and ends when it is told to', async () => {
    const server = await serve();
    try {
      const { tokenIds } = await generate(server.client, message);
      // A line a request: more than a pipe holds, and nobody reads them.
      const one = request({ text: 'the', stop: { maxTokens: 1 }, requestId: 'x'.repeat(100) });
      for (let i = 0; i < 40; i++) await Promise.all(Array.from({ length: 10 }, () => generate(server.client, one)));
      expect((await disturbed(server, () => undefined)).tokenIds).toEqual(tokenIds);
      server.client.close();
      expect(await endProcess(server.child, 'SIGTERM')).toBe(0);
    } finally {
      await server.stop();
    }
  });

  it('when what it keeps of faults is a pipe that nobody writes to goes on', async () => {
    const stateFolder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    execFileSync('mkfifo', [path.join(stateFolder, 'faults.json')]);
    const server = await serve({ stateFolder });
    try {
      server.child.stderr?.resume();
      const { tokenIds } = await generate(server.client, message);
      expect((await disturbed(server, () => undefined)).tokenIds).toEqual(tokenIds);
    } finally {
      await server.stop();
    }
  });

  it('when what it keeps of faults cannot be written goes on', async () => {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'file');
    writeFileSync(file, '');
    const server = await serve({ stateFolder: path.join(file, 'folder') });
    try {
      server.child.stderr?.resume();
      const { tokenIds } = await generate(server.client, message);
      expect((await disturbed(server, () => undefined)).tokenIds).toEqual(tokenIds);
    } finally {
      await server.stop();
    }
  });
});
