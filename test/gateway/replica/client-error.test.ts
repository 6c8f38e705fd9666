import { expect, it } from 'vitest';
import { clientError, withoutExecutor } from '../../../src/gateway/replica/client-error.js';
import { RocmForgeError } from '../../../src/shared/errors.js';

const told = (message: string, model = '/srv/m/a.gguf') =>
  clientError(new RocmForgeError('OUT_OF_MEMORY', message, { retry_delay_ms: '5' }), model);

it.each([
  ['/srv/m/a.gguf does not fit: 8 GB of weights', 'a.gguf does not fit: 8 GB of weights'],
  ['no host kernels for v3 in /opt/k/host; run "npm run build"', 'no host kernels for v3 in host; run "npm run build"'],
  ['"/srv/m/a.gguf" (part of /srv/m/b.gguf), 1/2 of 3/4', '"a.gguf" (part of b.gguf), 1/2 of 3/4'],
  ['see https://example.org/a/b/c or a/b/c', 'see https://example.org/a/b/c or a/b/c'],
  ['exit code 1: rocmforge: X: /a/b: cannot be read', 'exit code 1: rocmforge: X: b: cannot be read'],
])('of %s clients read no folder of this machine', (message, shown) => {
  expect(told(message)).toMatchObject({ reason: 'OUT_OF_MEMORY', message: shown, metadata: { retry_delay_ms: '5' } });
});

it('knows the folder of the model, whatever its name', () => {
  expect(told('/home/Ada Lovelace/m.gguf: no', '/home/Ada Lovelace/m.gguf').message).toBe('m.gguf: no');
  expect(told('m.gguf: no', 'm.gguf').message).toBe('m.gguf: no');
});

it.each([
  // Tried every 500 ms: a client that waits half a minute would find it long free.
  ['EXECUTOR_BUSY', 'another gateway has this executor; it is retried every 500 ms', 1000],
  ['EXECUTOR_UNAVAILABLE', 'the executor repeatedly ended or did not answer; it is retried every 30 s', 30_000],
] as const)('after %s clients are told when the next executor may serve', (reason, message, retryMs) => {
  const error = withoutExecutor(new RocmForgeError(reason, 'another gateway has this executor'));
  expect(error).toMatchObject({
    ...{ reason: 'EXECUTOR_UNAVAILABLE', message, metadata: { retry_delay_ms: String(retryMs) } },
  });
});
