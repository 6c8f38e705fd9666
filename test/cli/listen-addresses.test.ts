import { describe, expect, it } from 'vitest';
import { checkListenAddresses, type ListenAddresses } from '../../src/cli/serve/listen-addresses.js';

const refusal = (addresses: ListenAddresses): string => {
  try {
    checkListenAddresses(addresses);
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};

describe('addresses of one gateway', () => {
  it.each<[ListenAddresses, string]>([
    [
      { listen: '127.0.0.1:1', httpAddresses: ['127.0.0.1:1'] },
      '--listen and --http-listen use one address, 127.0.0.1:1;',
    ],
    [
      { listen: '127.0.0.1:1', httpAddresses: ['127.0.0.1:2', '127.0.0.1:3', '127.0.0.1:2'] },
      'two of --http-listen use one address, 127.0.0.1:2;',
    ],
    [
      { listen: '127.0.0.1:1', metricsListen: '0.0.0.0:1' },
      '--listen and --metrics-listen use one address, 127.0.0.1:1 and 0.0.0.0:1;',
    ],
    [{ listen: '[::]:1', metricsListen: '127.0.0.1:1' }, '--listen and --metrics-listen use one address'],
    [{ listen: 'localhost:1', metricsListen: '[::1]:1' }, '--listen and --metrics-listen use one address'],
    [{ listen: 'unix:/x', adminListen: 'unix:/x' }, '--listen and --admin-listen use one address, unix:/x;'],
  ])('are refused where two servers could not both listen: %j', (addresses, message) => {
    expect(refusal(addresses)).toContain(message);
  });

  it.each<ListenAddresses>([
    { listen: '127.0.0.1:1', httpAddresses: ['127.0.0.1:2', '127.0.0.2:1'], metricsListen: '[::1]:1' },
    { listen: '127.0.0.1:0', httpAddresses: ['127.0.0.1:0'], metricsListen: '127.0.0.1:0' },
    { listen: '0.0.0.0:1', metricsListen: '[::1]:1' },
    { listen: 'unix:/x', httpAddresses: ['unix:/y'], adminListen: 'unix:/z' },
  ])('are taken: %j', (addresses) => {
    expect(refusal(addresses)).toBe('');
  });

  it.each<[ListenAddresses, string]>([
    [{ listen: '127.0.0.1:80:80' }, '"127.0.0.1:80:80" is not an address; use HOST:PORT, such as 127.0.0.1:50051'],
    [{ listen: 'unix:/x', httpAddresses: ['host'] }, '"host" is not an address'],
    [{ listen: 'unix:/x', metricsListen: 'unix:/y' }, '"unix:/y" is not an address; use HOST:PORT for metrics'],
    [{ listen: '127.0.0.1:65536' }, 'the port must be between 0 and 65535'],
  ])('are refused where one is none: %j', (addresses, message) => {
    expect(refusal(addresses)).toContain(message);
  });
});
