import { expect, it } from 'vitest';
import { dropFarDeadline } from '../../../../src/gateway/api/grpc/call-guard.js';

it.each([
  ['624H', undefined],
  ['438000H', undefined],
  ['99999999M', undefined],
  ['99999999S', undefined],
  ['35791M', '35791M'],
  ['576H', '576H'],
  ['2147483S', '2147483S'],
  ['99999999m', '99999999m'],
  ['1n', '1n'],
  ['soon', 'soon'],
])('a deadline of %s reaches a timer as %s', (told, left) => {
  const headers = { 'grpc-timeout': told };
  dropFarDeadline(headers);
  expect(headers['grpc-timeout']).toBe(left);
});
