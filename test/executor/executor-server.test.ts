import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { type ExecutorServerOptions, openExecutorServer } from '../../src/executor/serve/executor-server.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const fileOf = (name: string, text: string) => {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
};
const secretFile = fileOf('secret', `${'s'.repeat(32)}\n`);
const server = (options: Partial<ExecutorServerOptions>) =>
  openExecutorServer({ listen: '127.0.0.1:50052', insecure: false, ...options }, pino({ level: 'silent' }));

it.each<[string, Partial<ExecutorServerOptions>]>([
  ['a Unix socket, which its permissions guard', { listen: 'unix:/run/executor.sock' }],
  ['a Unix socket and a secret', { listen: 'unix:/run/executor.sock', secretFile }],
  ['TCP with a secret', { listen: '0.0.0.0:50052', secretFile }],
  ['loopback, where --insecure says so', { insecure: true }],
  ['localhost, where --insecure says so', { listen: 'localhost:50052', insecure: true }],
  ['IPv6 loopback, where --insecure says so', { listen: '[::1]:50052', insecure: true }],
])('opens on %s', (_what, options) => {
  expect(server(options).interceptors.length).toBe(options.secretFile === undefined ? 0 : 1);
});

it.each<[string, Partial<ExecutorServerOptions>, RegExp]>([
  ['loopback without a word', {}, /127.0.0.1:50052 is open to strangers; use --secret-file/],
  ['all addresses without a credential', { listen: '0.0.0.0:50052' }, /is open to strangers/],
  ['all addresses, insecure', { listen: '0.0.0.0:50052', insecure: true }, /--insecure is for loopback addresses/],
  ['a name that looks like loopback', { listen: '127.0.0.1.example.com:1', insecure: true }, /is for loopback/],
  ['insecure with a secret', { secretFile, insecure: true }, /leave it out/],
  ['insecure on a Unix socket', { listen: 'unix:/x', insecure: true }, /leave it out/],
  [
    'TLS alone, which knows the executor and not the gateway',
    { tlsCert: secretFile, tlsKey: secretFile },
    /is open to str/,
  ],
  ['a certificate without a key', { secretFile, tlsCert: secretFile }, /need each other/],
  ['authorities without a certificate', { tlsClientCa: secretFile }, /--tls-client-ca needs --tls-cert/],
  ['a short secret', { secretFile: fileOf('short', 'hunter2\n') }, /holds no secret: one line of 32/],
  ['a secret of two lines', { secretFile: fileOf('two', `${'s'.repeat(40)}\n${'s'.repeat(40)}\n`) }, /holds no secret/],
  ['a secret that is not there', { secretFile: path.join(folder, 'none') }, /^--secret-file \S+none does not exist$/],
])('refuses %s', (_what, options, message) => {
  expect(() => server(options)).toThrow(expect.objectContaining({ reason: 'INVALID_OPTION' }));
  expect(() => server(options)).toThrow(message);
});
