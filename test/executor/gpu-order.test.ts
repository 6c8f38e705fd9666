import { expect, it } from 'vitest';
import { gpuOrder } from '../../src/executor/open-device.js';

it.each([
  [
    ['gfx1036', 'gfx1100'],
    [1, 0],
  ],
  [
    ['gfx1151', 'gfx90c', 'gfx1201', 'gfx942'],
    [2, 3, 0, 1],
  ],
  [
    ['gfx1030', 'gfx1100'],
    [0, 1],
  ],
  [
    ['sm_90', 'sm_80'],
    [0, 1],
  ],
  [[], []],
])('of GPUs %j a card is tried before a processor’s own GPU: %j', (architectures, order) => {
  expect(gpuOrder(architectures)).toEqual(order);
});
