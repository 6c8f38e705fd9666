import { expect, it } from 'vitest';
import { peerOf } from '../../../src/gateway/api/peer.js';

it.each([
  ['127.0.0.1:50312', '127.0.0.1'],
  ['::ffff:10.1.2.3:50312', '10.1.2.3'],
  ['::1:50312', '0:0:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6:50312', '2001:db8:1:2::/64'],
  ['2001:db8::5:50312', '2001:db8:0:0::/64'],
  ['fe80::1%eth0:50312', 'fe80:0:0:0::/64'],
  ['unix:17', 'unix:17'],
  ['unknown', 'unknown'],
])('a call from %s is of the peer %s', (connection, peer) => {
  expect(peerOf({ getPeer: () => connection })).toBe(peer);
});
