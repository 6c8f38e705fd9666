import { afterEach, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';

const NAMES = ['CUDA_DEVICE_MAX_CONNECTIONS', 'CUDA_DEVICE_MAX_COPY_CONNECTIONS'] as const;
const before = NAMES.map((name) => process.env[name]);
afterEach(() => {
  for (const [i, name] of NAMES.entries()) {
    const value = before[i];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
});
const opened = () => {
  try {
    openDevice({ kind: 'cuda' });
  } catch {
    // A machine without such a GPU.
  }
  return NAMES.map((name) => process.env[name]);
};

it('a CUDA driver finds how many queues it is to open, unless a user has said so', () => {
  for (const name of NAMES) delete process.env[name];
  expect(opened()).toEqual(['2', '2']);
  process.env.CUDA_DEVICE_MAX_CONNECTIONS = '8';
  delete process.env.CUDA_DEVICE_MAX_COPY_CONNECTIONS;
  expect(opened()).toEqual(['8', '2']);
});
