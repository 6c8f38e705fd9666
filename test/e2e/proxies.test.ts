import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { RocmForgeClient } from '../../src/client/index.js';
import { packageRoot } from '../../src/shared/package.js';
import { freePort } from '../../tools/free-port.mjs';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { writeRandomModel } from '../support/random-model.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const model = writeRandomModel({ contextLength: 512 });
/** Longer than HAProxy takes to notice. */
const DRAIN_DELAY = '2000';
const GRPC_CLIENTS = 8;
const HTTP_CLIENTS = 2;

const PROXIES = {
  // It asks no probes: a call that connects at the very moment at which the server closes has been sent, and is not sent again.
  nginx: {
    atConnect: 3,
    config: 'nginx.conf',
    version: '-v',
    args: (file: string) => ['-c', file, '-g', nginxGlobals(file)],
  },
  haproxy: { atConnect: 0, config: 'haproxy.cfg', version: '-v', args: (file: string) => ['-db', '-f', file] },
};
const nginxGlobals = (file: string) => `daemon off; pid ${file}.pid; error_log ${file}.log;`;

/** A call that was made, and how it ended. */
interface Call {
  readonly began: number;
  ended: number;
  error?: unknown;
}

/** Clients that call one after the other until they are told to stop. */
class Load {
  readonly calls: Call[] = [];
  private isOver = false;
  private readonly running: Promise<void>[];
  private readonly clients: readonly RocmForgeClient[];

  constructor(grpc: string, http: string) {
    this.clients = Array.from({ length: GRPC_CLIENTS }, () => new RocmForgeClient(grpc));
    const overGrpc = async (client: RocmForgeClient) => {
      let tokens = 0;
      const request = {
        input: { $case: 'text' as const, value: { text: 'Once' } },
        stop: { maxTokens: 60, ignoreEos: true },
      };
      for await (const event of client.generateStream(request)) {
        if (event.$case === 'chunk') tokens += event.value.tokenIds.length;
      }
      expect(tokens).toBe(60);
    };
    const overHttp = async () => {
      const body = JSON.stringify({ prompt: 'Once', n_predict: 60, ignore_eos: true });
      const response = await fetch(`${http}/completion`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      const answer = { status: response.status, body: await response.json() };
      expect(answer).toMatchObject({ status: 200, body: { tokens_predicted: 60 } });
    };
    this.running = [
      ...this.clients.map((client) => this.repeat(() => overGrpc(client))),
      ...Array.from({ length: HTTP_CLIENTS }, () => this.repeat(overHttp)),
    ];
  }

  get failed(): readonly string[] {
    return this.failedCalls.map(({ error }) => String(error));
  }
  get failedCalls(): readonly Call[] {
    return this.calls.filter(({ error }) => error !== undefined);
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.running);
    for (const client of this.clients) client.close();
  }

  private async repeat(once: () => Promise<void>): Promise<void> {
    while (!this.isOver) {
      const call: Call = { began: performance.now(), ended: Number.POSITIVE_INFINITY };
      this.calls.push(call);
      try {
        await once();
      } catch (error) {
        call.error = error;
      }
      call.ended = performance.now();
      // Without a rest, ten clients take what time the machine has from the gateway that starts.
      await later(50);
    }
  }
}

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(Object.entries(PROXIES))('%s before two gateways', (program, { atConnect, config, version, args }) => {
  const isMissing = spawnSync(program, [version]).status !== 0;
  if (isMissing) console.log(`skipped: ${program} is not installed`);

  it.skipIf(isMissing)('lets no client see that one drains, and only calls under way that one is killed', async () => {
    const given = readFileSync(path.join(packageRoot, 'deploy', 'proxies', config), 'utf8');
    const ports = new Map<string, number>();
    for (const [port] of given.matchAll(/\b(?:5005[012]|808[012]|940[12])\b/g)) {
      if (!ports.has(port)) ports.set(port, await freePort());
    }
    const here = (port: string) => `127.0.0.1:${ports.get(port)}`;
    for (const port of ['9401', '9402']) if (!ports.has(port)) ports.set(port, await freePort());
    const gateway = async (which: 1 | 2): Promise<ChildProcess> => {
      const listening = ['--listen', here(`5005${which}`), '--http-listen', here(`808${which}`)];
      const probes = ['--metrics-listen', here(`940${which}`), '--drain-delay-ms', DRAIN_DELAY];
      const { child } = await startRocmforge(/^serving HTTP/m, 'serve', '--model', model, ...listening, ...probes);
      return child;
    };
    const [first, b] = await Promise.all([gateway(1), gateway(2)]);
    let a = first;
    const file = path.join(folder, config);
    writeFileSync(
      file,
      given.replace(/\b(?:5005[012]|808[012]|940[12])\b/g, (port) => String(ports.get(port))),
    );
    const proxy = spawn(program, args(file), { stdio: 'ignore' });
    try {
      await later(1500);
      const load = new Load(here('50050'), `http://${here('8080')}`);
      await later(1500);
      const drained = performance.now();
      expect(await endProcess(a)).toBe(0);
      const gone = performance.now();
      await later(1000);
      const closing = load.failedCalls.filter(({ ended }) => ended >= drained + Number(DRAIN_DELAY) && ended <= gone);
      expect(load.failed.slice(closing.length)).toEqual([]);
      expect(closing.length).toBeLessThanOrEqual(atConnect);
      expect(load.calls.filter(({ ended }) => ended > drained && ended < gone).length).toBeGreaterThan(
        GRPC_CLIENTS + HTTP_CLIENTS,
      );

      a = await gateway(1);
      // nginx asks again who did not answer; HAProxy's probes find it.
      await later(3000);
      // Until it is gone, a request may still reach it: those are under way, too.
      const ended = new Promise((resolve) => b.once('exit', resolve));
      const told = performance.now();
      b.kill('SIGKILL');
      await ended;
      const killed = performance.now();
      const since = () => load.calls.filter(({ began }) => began > killed);
      await later(3000);
      await expect.poll(() => since().length).toBeGreaterThan(20);
      await load.stop();
      const after = since();
      expect(after.flatMap(({ error }) => (error === undefined ? [] : [String(error)]))).toEqual([]);
      const cut = load.failedCalls.filter((call) => call.began <= killed && !closing.includes(call));
      console.log(
        `${program}: ${load.calls.length} calls, ${closing.length} failed at the server, ${cut.length} of ${GRPC_CLIENTS + HTTP_CLIENTS} under way ended with the gateway that was killed`,
      );
      expect(cut.length).toBeLessThan(GRPC_CLIENTS + HTTP_CLIENTS);
      expect(cut.every(({ ended }) => ended >= told)).toBe(true);
    } finally {
      await endProcess(proxy);
      await endProcess(a);
      b.kill('SIGKILL');
    }
  });
});
