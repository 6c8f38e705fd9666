import { describe, expect, it } from 'vitest';
import { parseHostPort } from '../../src/shared/address.js';

describe('HOST:PORT', () => {
  it.each([
    ['127.0.0.1:0', '127.0.0.1', 0],
    ['gateway.example:65535', 'gateway.example', 65_535],
    ['[::1]:50051', '::1', 50_051],
    ['::1:50051', '::1', 50_051],
    [':::80', '::', 80],
  ])('%s is read', (address, host, port) => {
    expect(parseHostPort(address)).toEqual({ host, port });
  });

  it.each([
    'nonsense',
    '127.0.0.1',
    ':80',
    '127.0.0.1:80:80',
    'host:80:80',
    '[host]:80',
    '[127.0.0.1]:80',
    'a]:80',
    'a:b',
  ])('%s is another form', (address) => {
    expect(() => parseHostPort(address)).toThrow(
      `"${address}" is not an address; use HOST:PORT, such as 127.0.0.1:50051, or unix:PATH`,
    );
  });

  it.each(['127.0.0.1:65536', '127.0.0.1:99999', '[::1]:1000000'])('%s has too large a port', (address) => {
    expect(() => parseHostPort(address)).toThrow(
      expect.objectContaining({
        reason: 'INVALID_OPTION',
        message: `"${address}" is not an address: the port must be between 0 and 65535`,
      }),
    );
  });
});
