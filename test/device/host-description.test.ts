import { expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';

it.each([
  [1, '1 thread'],
  [2, '2 threads'],
])('the host with %i is described as having %s', (threads, text) => {
  expect(openDevice({ kind: 'host', threads }).description).toMatch(new RegExp(`, ${text}\\b`));
});
