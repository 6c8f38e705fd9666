import { expect, it } from 'vitest';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { redactedOptions } from '../../src/gateway/redacted-options.js';

it('tells files of all models and executors by their names alone', () => {
  const options = {
    model: '/home/somebody/a.gguf',
    modelName: 'chat',
    moreModels: [{ model: '/home/somebody/b.gguf', modelName: 'small', modelAlias: ['x'] }],
    executor: { address: 'unix:/home/somebody/e.sock' },
    moreExecutors: [{ address: 'unix:/home/somebody/f.sock', ca: '/home/somebody/ca.pem' }],
    tokenFile: '/home/somebody/tokens',
    seed: 5n,
    maxSequences: 4,
  } as unknown as GatewayOptions;
  expect(redactedOptions(options)).toEqual({
    model: 'a.gguf',
    modelName: 'chat',
    moreModels: [{ model: 'b.gguf', modelName: 'small', modelAlias: ['x'] }],
    executor: { address: 'unix:e.sock' },
    moreExecutors: [{ address: 'unix:f.sock', ca: 'ca.pem' }],
    tokenFile: 'tokens',
    seed: '5',
    maxSequences: 4,
  });
});
