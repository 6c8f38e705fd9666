import { type ChildProcess, execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MetricsSnapshot } from '../../src/cli/bench/prometheus.js';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { hasOpenssl, makeAuthority } from '../support/certificates.js';
import { endProcess, startRocmforgeBy } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { hostsAreMissing, TestHosts } from '../support/test-hosts.js';

const missing = hasOpenssl ? hostsAreMissing() : 'there is no openssl command';
if (missing !== undefined) console.log(`skipped, no hosts of the tests' own: ${missing}`);

const STREAMS = 12;
const model = writeRandomModel();
const requestOf = (i: number) =>
  request({
    tokens: [1, 270 + i, 280],
    sampling: { temperature: i % 2, seed: BigInt(i) },
    stop: { maxTokens: 150, ignoreEos: true },
  });

// A gateway on one host, an executor on each of two others, over TLS with certificates of both sides.
describe.skipIf(missing !== undefined)('executors on other hosts', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const socket = path.join(folder, 'gateway.sock');
  const children: ChildProcess[] = [];
  let hosts: TestHosts;
  let client: InferenceServiceClient;
  let expected: readonly (readonly number[])[];

  beforeAll(async () => {
    const alone = await startTestGateway(model);
    const undisturbed = await Promise.all(
      Array.from({ length: STREAMS }, (_, i) => generate(alone.client, requestOf(i))),
    );
    expected = undisturbed.map(({ tokenIds }) => tokenIds);
    await alone.stop();

    hosts = new TestHosts(3);
    const authority = makeAuthority('cluster');
    const addresses = [1, 2].map((host) => `${hosts.addressOf(host)}:7000`);
    for (const [i, address] of addresses.entries()) {
      const own = authority.issue('executor', { addresses: [hosts.addressOf(i + 1)] });
      const tls = ['--tls-cert', own.cert, '--tls-key', own.key, '--tls-client-ca', authority.ca];
      const options = ['--listen', address, '--device', 'host', '--threads', '1', '--step-delay-ms', '10', ...tls];
      const { child } = await startRocmforgeBy(hosts.on(i + 1), /executor listening/, 'executor', ...options);
      children.push(child);
    }
    const own = authority.issue('gateway');
    const remote = addresses.flatMap((address) => ['--executor', address]);
    const tls = ['--executor-ca', authority.ca, '--executor-cert', own.cert, '--executor-key', own.key];
    const listen = ['--listen', `unix:${socket}`, '--metrics-listen', '127.0.0.1:9090'];
    const limits = ['--max-sequences', '8', '--step-timeout-ms', '1000', '--state-dir', folder];
    const { child } = await startRocmforgeBy(
      hosts.on(0),
      /^serving /,
      ...['serve', '--model', model, ...remote, ...tls, ...listen, ...limits],
    );
    children.push(child);
    client = new InferenceServiceClient(`unix:${socket}`, credentials.createInsecure());
  });
  afterAll(async () => {
    client?.close();
    await Promise.all(children.map((child) => endProcess(child, 'SIGKILL')));
    hosts?.remove();
  });

  /** Asked on the gateway's own host. */
  const executorsUp = async () => {
    const ask = "fetch('http://127.0.0.1:9090/metrics').then((told) => told.text()).then((text) => console.log(text))";
    const { stdout } = await promisify(execFile)('ip', [...hosts.on(0).slice(1), process.execPath, '-e', ask]);
    return MetricsSnapshot.parse(stdout).get('rocmforge_executor_up');
  };
  /** Answers of all requests, with `disturb` in their middle. */
  async function answers(disturb: () => Promise<void> | void): Promise<readonly (readonly number[])[]> {
    const running = Array.from({ length: STREAMS }, (_, i) => generate(client, requestOf(i)));
    const all = Promise.all(running);
    all.catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 600));
    await disturb();
    return (await all).map(({ tokenIds }) => tokenIds);
  }

  it('serve as one', async () => {
    expect(await executorsUp()).toBe(2);
    expect(await answers(() => undefined)).toEqual(expected);
  });

  it.each([1, 2])(
    'one of which (%i) is cut off: its streams go on with the other, and it is back when it is reached',
    async (host) => {
      expect(await answers(() => hosts.cut(host))).toEqual(expected);
      expect(await executorsUp()).toBe(1);
      hosts.mend(host);
      await expect.poll(executorsUp, { interval: 200 }).toBe(2);
      expect(await answers(() => undefined)).toEqual(expected);
    },
  );

  it('both of which are cut off for a while: all streams wait, and go on', async () => {
    const tokens = await answers(async () => {
      hosts.cut(1);
      hosts.cut(2);
      await expect.poll(executorsUp, { interval: 100 }).toBe(0);
      hosts.mend(1);
      hosts.mend(2);
    });
    expect(tokens).toEqual(expected);
    await expect.poll(executorsUp, { interval: 200 }).toBe(2);
  });
});
