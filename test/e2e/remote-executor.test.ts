import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { RemoteExecutor } from '../../src/gateway/replica/link/remote-executor.js';
import { HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { ExecutorServiceClient } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { hasOpenssl, makeAuthority } from '../support/certificates.js';
import { endProcess, rocmforge, startRocmforge } from '../support/command-line.js';
import { freePort } from '../support/free-port.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const model = writeRandomModel();
const MESSAGE = request({
  tokens: [1, 270, 280],
  sampling: { temperature: 0 },
  stop: { maxTokens: 8, ignoreEos: true },
});
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const fileOf = (name: string, text: string) => {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
};

let executor: ChildProcess | undefined;
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  if (executor) await endProcess(executor, 'SIGKILL');
  executor = undefined;
});

/** An executor on TCP. @returns its address */
async function startExecutor(...options: string[]): Promise<string> {
  const address = `localhost:${await freePort()}`;
  ({ child: executor } = await startRocmforge(
    /executor listening/,
    ...['executor', '--device', 'host', '--listen', address, ...options],
  ));
  return address;
}
const startGateway = async (remote: RemoteExecutor) => {
  gateway = await startTestGateway(model, { executor: remote });
  return gateway;
};
const tokensOf = async (remote: RemoteExecutor) =>
  (await generate((await startGateway(remote)).client, MESSAGE)).tokenIds.length;

/** Response to a caller with these credentials. */
function answerTo(address: string, authorization?: string, channel = credentials.createInsecure()): Promise<string> {
  const client = new ExecutorServiceClient(address, channel);
  const metadata = new Metadata();
  if (authorization !== undefined) metadata.set('authorization', authorization);
  return new Promise((resolve) =>
    client.getInfo({}, metadata, (error: ServiceError | null) => {
      client.close();
      resolve(error === null ? 'OK' : `${status[error.code]} ${errorInfo(error)?.reason}`);
    }),
  );
}

it('an executor on TCP does not start without a credential, and on loopback with --insecure does', async () => {
  const refused = await rocmforge('executor', '--device', 'host', '--listen', '127.0.0.1:0');
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('127.0.0.1:0 is open to strangers; use --secret-file');
  const address = await startExecutor('--insecure');
  expect(await tokensOf({ address })).toBe(8);
});

it('a shared secret lets its gateway in and nobody else, and may change while they work', async () => {
  const secretFile = fileOf('secret', 'a'.repeat(40));
  const other = fileOf('other', 'b'.repeat(40));
  const address = await startExecutor('--secret-file', secretFile);
  expect(await answerTo(address)).toBe('UNAUTHENTICATED CREDENTIAL_MISSING');
  expect(await answerTo(address, `Bearer ${'a'.repeat(41)}`)).toBe('UNAUTHENTICATED CREDENTIAL_INVALID');
  await expect(startGateway({ address })).rejects.toMatchObject({ reason: 'CREDENTIAL_MISSING' });
  await expect(startGateway({ address, secretFile: other })).rejects.toMatchObject({ reason: 'CREDENTIAL_INVALID' });
  // ROCMFORGE_TOKEN is for gateways: a hint about it would mislead.
  const serve = ['serve', '--model', model, '--listen', '127.0.0.1:0', '--executor', address];
  const { stderr } = await rocmforge(...serve);
  expect(stderr).toContain(
    'rocmforge: CREDENTIAL_MISSING: this executor demands a secret; give serve --executor-secret-file\n',
  );
  expect(stderr).not.toContain('ROCMFORGE_TOKEN');
  expect((await rocmforge(...serve, '--executor-secret-file', other)).stderr).not.toContain('ROCMFORGE_TOKEN');
  await expect(startGateway({ address, secretFile: folder })).rejects.toMatchObject({ reason: 'INVALID_OPTION' });
  expect(await tokensOf({ address, secretFile })).toBe(8);
  // Another one holds from the next session on; this one goes on.
  renameSync(other, secretFile);
  await expect.poll(() => answerTo(address, `Bearer ${'b'.repeat(40)}`)).toBe('OK');
  expect((await generate((gateway as TestGateway).client, MESSAGE)).tokenIds.length).toBe(8);
  await gateway?.stop();
  expect(await tokensOf({ address, secretFile })).toBe(8);
  const health = new HealthClient(address, credentials.createInsecure());
  const answer = await new Promise((resolve) => health.check({ service: '' }, (_error, told) => resolve(told?.status)));
  health.close();
  expect(answer).toBe(1);
});

it('a model file that is missing on the executor’s host is named with the executor', async () => {
  const address = await startExecutor('--insecure');
  // A path that is another one in each process.
  const file = `/proc/self/cwd/${path.basename(model)}`;
  const before = process.cwd();
  process.chdir(path.dirname(model));
  try {
    await expect(startTestGateway(file, { executor: { address } })).rejects.toMatchObject({
      reason: 'MODEL_FILE_UNREADABLE',
      message: `${file} does not exist on the host of the executor at ${address}; the model file must be at the same path there`,
    });
  } finally {
    process.chdir(before);
  }
});

describe.skipIf(!hasOpenssl)('over TLS', () => {
  it('gateway and executor each demand the other’s certificate', async () => {
    const authority = makeAuthority('cluster');
    const [own, gateways] = [authority.issue('executor'), authority.issue('gateway')];
    const tls = ['--tls-cert', own.cert, '--tls-key', own.key, '--tls-client-ca', authority.ca];
    const address = await startExecutor(...tls);
    const { ca } = authority;
    const answers: string[] = [];
    expect(await tokensOf({ address, ca, cert: gateways.cert, key: gateways.key })).toBe(8);
    await gateway?.stop();
    gateway = undefined;
    const stranger = makeAuthority('other').issue('gateway');
    const caPem = authority.caPem;
    for (const channel of [
      credentials.createSsl(caPem, gateways.keyPem, gateways.certPem),
      credentials.createSsl(caPem),
      credentials.createSsl(caPem, stranger.keyPem, stranger.certPem),
      credentials.createInsecure(),
    ]) {
      answers.push(await answerTo(address, undefined, channel));
    }
    expect(answers).toEqual(['OK', ...Array(3).fill('UNAVAILABLE undefined')]);
    await expect(startGateway({ address, ca })).rejects.toMatchObject({
      reason: 'EXECUTOR_UNAVAILABLE',
      message: expect.stringMatching(
        /^no executor answers at localhost:\d+: the executor demands a client certificate.*; give --executor-cert/,
      ),
    });
  });
});

it.each<[string, Partial<RemoteExecutor>, RegExp]>([
  ['a certificate without a key', { cert: 'x' }, /--executor-cert and --executor-key need each other/],
  ['a certificate without authorities', { cert: 'x', key: 'y' }, /--executor-cert needs --executor-ca/],
  ['authorities that are not there', { ca: '/nowhere/ca.pem' }, /--executor-ca \/nowhere\/ca.pem does not exist/],
  ['a secret that is not there', { secretFile: '/nowhere/s' }, /--executor-secret-file \/nowhere\/s does not exist/],
])('a gateway refuses %s', async (_what, options, message) => {
  await expect(startGateway({ address: 'localhost:1', ...options })).rejects.toThrow(message);
});

it('options of an executor elsewhere are refused without one', async () => {
  const { code, stderr } = await rocmforge('serve', '--model', model, '--executor-secret-file', fileOf('s', 'x'));
  expect([code, stderr]).toEqual([1, expect.stringContaining('--executor-secret-file requires --executor')]);
});
