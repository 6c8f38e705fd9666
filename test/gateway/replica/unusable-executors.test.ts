import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Logger, pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { AdminClient } from '../../../src/cli/admin/admin-client.js';
import type { GatewayOptions } from '../../../src/gateway/options.js';
import { packageVersion } from '../../../src/shared/package.js';
import { openTlsMaterial } from '../../../src/shared/tls.js';
import { FakeExecutor } from '../../doubles/fake-executor.js';
import { hasOpenssl, type IssuedCertificate, makeAuthority } from '../../support/certificates.js';
import { replicaAt } from '../../support/fake-fleet.js';
import { FAKE_VOCABULARY } from '../../support/fake-gateway.js';
import { generate, request, startTestGateway, type TestGateway } from '../../support/gateway.js';
import { writeRandomModel } from '../../support/random-model.js';

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const newExecutor = () => {
  const executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks: 200, stepMs: 1 });
  ends.push(() => executor.stop());
  return executor;
};
const socketIn = () => `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'x.sock')}`;

describe('executors elsewhere of which one is of another version', () => {
  const other = { version: '0.0.1', platform: 'fake', target: 'fake' };
  const own = { ...other, version: packageVersion };

  async function start(versions: readonly (typeof own)[]) {
    const executors = versions.map((info) => Object.assign(newExecutor(), { info }));
    const addresses = executors.map(socketIn);
    for (const [i, executor] of executors.entries()) await executor.listen(addresses[i] as string);
    const [first, ...more] = addresses.map((address) => ({ address }));
    const adminListen = socketIn();
    const server: TestGateway = await startTestGateway(writeRandomModel({ contextLength: 4096 }), {
      executor: first as GatewayOptions['executor'],
      moreExecutors: more,
      adminListen,
    });
    ends.push(() => server.stop());
    return { server, executors, adminListen };
  }
  const message = request({ tokens: [259, 260, 261], stop: { maxTokens: 8, ignoreEos: true } });

  it('do not keep a gateway from starting with the others; it is told of, and used once it is of this version', async () => {
    const { server, executors, adminListen } = await start([other, own]);
    expect((await generate(server.client, message)).tokenIds).toHaveLength(8);
    const metric = async () =>
      (await server.gateway.metrics.registry.metrics())
        .split('\n')
        .filter((line) => line.startsWith('rocmforge_executor_unusable{'));
    expect(await metric()).toEqual(['rocmforge_executor_unusable{replica="0",reason="EXECUTOR_PROTOCOL"} 1']);
    const admin = new AdminClient(adminListen);
    ends.push(async () => admin.close());
    expect((await admin.report()).executorProblems).toEqual([
      expect.stringMatching(/^EXECUTOR_PROTOCOL: the executor has version "0\.0\.1", this gateway /),
      '',
    ]);
    (executors[0] as FakeExecutor).info = own;
    await expect.poll(() => server.gateway.replicas.map(({ state }) => state)).toEqual(['serving', 'serving']);
    expect(await metric()).toEqual([]);
    expect((await admin.report()).executorProblems).toEqual(['', '']);
  });

  it('do, where no other is there', async () => {
    await expect(start([other, other])).rejects.toMatchObject({ reason: 'EXECUTOR_PROTOCOL' });
  });
});

describe.skipIf(!hasOpenssl)('an executor elsewhere with another certificate', () => {
  const cluster = hasOpenssl ? makeAuthority('cluster') : undefined!;
  const own = hasOpenssl ? cluster.issue('executor') : undefined!;
  const stranger = hasOpenssl ? makeAuthority('other').issue('executor') : undefined!;

  async function listen(address: string, { cert, key }: IssuedCertificate): Promise<[FakeExecutor, number]> {
    const tls = openTlsMaterial({ cert, key }, pino({ level: 'silent' }));
    ends.push(async () => tls.close());
    const executor = newExecutor();
    return [executor, await executor.listen(address, tls)];
  }
  function replicaOf(port: number) {
    const lines: string[] = [];
    const log: Logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) });
    const replica = replicaAt({ address: `127.0.0.1:${port}`, ca: cluster.ca }, 4, log);
    ends.push(() => replica.stop());
    return { replica, lines };
  }

  it('is refused at the start with the reason, long before the time for an answer is over', async () => {
    const [, port] = await listen('127.0.0.1:0', stranger);
    const { replica } = replicaOf(port);
    await expect(replica.start()).rejects.toMatchObject({
      reason: 'EXECUTOR_UNAVAILABLE',
      message: expect.stringMatching(/^no executor answers at 127\.0\.0\.1:\d+: its certificate is refused: /),
    });
  });

  it('is waited for in service with the reason in the log, and serves once its certificate is right', async () => {
    const [first, port] = await listen('127.0.0.1:0', own);
    const { replica, lines } = replicaOf(port);
    await replica.start();
    await first.stop();
    const [second] = await listen(`127.0.0.1:${port}`, stranger);
    await expect.poll(() => lines.join('')).toMatch(/no executor answers yet: its certificate is refused: /);
    expect(replica.state).toBe('starting');
    await second.stop();
    await listen(`127.0.0.1:${port}`, own);
    await expect.poll(() => replica.state).toBe('serving');
  });
});
