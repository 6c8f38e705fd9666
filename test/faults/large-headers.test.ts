import { constants } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hasOpenssl, makeAuthority } from '../support/certificates.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { END_HEADERS, FRAME, frame, HEADERS, literal, PING, RawClient } from '../support/raw-http2.js';

const KIB = 1024;
const FRAME_BYTES = 16 * KIB;
const SETTINGS_ACK = frame(FRAME.SETTINGS, 1, 0);

/** A block of headers as HEADERS and CONTINUATION frames. */
function headerFrames(stream: number, block: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < block.length; at += FRAME_BYTES) {
    const type = at === 0 ? FRAME.HEADERS : FRAME.CONTINUATION;
    const flags = at + FRAME_BYTES >= block.length ? END_HEADERS : 0;
    frames.push(frame(type, flags, stream, block.subarray(at, at + FRAME_BYTES)));
  }
  return frames;
}

let server: FakeGateway;
let raw: RawClient;
beforeEach(async () => {
  server = await startFakeGateway({ listen: '127.0.0.1:0' });
  raw = new RawClient(server.gateway.port);
  await expect.poll(() => raw.count(FRAME.SETTINGS)).toBeGreaterThan(1);
  raw.send(SETTINGS_ACK, SETTINGS_ACK);
});
afterEach(async () => {
  raw.socket.destroy();
  await server.stop();
});
const resetCodes = () => raw.resetCodes;

describe.each([60, 70, 120, 300, 500])('a call with %i KiB of headers is answered', (kib) => {
  it('where one header has them', async () => {
    raw.send(...headerFrames(1, Buffer.concat([HEADERS, literal('x-large', 'v'.repeat(kib * KIB))])));
    if (kib <= 64) {
      await expect.poll(resetCodes).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
    } else {
      // HPACK's state is lost, and with it the connection.
      await expect.poll(() => raw.isClosed).toBe(true);
      expect(raw.goaway).toBe(constants.NGHTTP2_COMPRESSION_ERROR);
    }
    expect(server.gateway.server.calls.openCalls).toBe(0);
    expect(server.gateway.server.headers.counters.refused).toBe(kib > 64 ? 1 : 0);
  });

  it('where many have', async () => {
    const headers = Array.from({ length: kib }, (_, i) => literal(`x-${i}`, 'v'.repeat(KIB)));
    raw.send(...headerFrames(1, Buffer.concat([HEADERS, ...headers])));
    await expect.poll(resetCodes).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
    expect(server.gateway.server.calls.openCalls).toBe(0);
  });
});

it.skipIf(!hasOpenssl)(
  'under TLS, too, one with a header of 120 KiB ends its connection and nothing else',
  async () => {
    const authority = makeAuthority('authority');
    const { cert, key } = authority.issue('gateway');
    const secure = await startFakeGateway({ listen: '127.0.0.1:0', tlsCert: cert, tlsKey: key });
    const socket = connectTls({
      port: secure.gateway.port,
      host: '127.0.0.1',
      ca: authority.caPem,
      ALPNProtocols: ['h2'],
    });
    try {
      const client = new RawClient(socket);
      await expect.poll(() => client.count(FRAME.SETTINGS)).toBeGreaterThan(1);
      client.send(
        ...[SETTINGS_ACK, SETTINGS_ACK],
        ...headerFrames(1, Buffer.concat([HEADERS, literal('x-large', 'v'.repeat(120 * KIB))])),
      );
      await expect.poll(() => client.isClosed).toBe(true);
      expect(client.goaway).toBe(constants.NGHTTP2_COMPRESSION_ERROR);
      await expect.poll(() => secure.gateway.server.connections.open).toBe(0);
      expect(secure.gateway.server.headers.counters.refused).toBe(1);
    } finally {
      socket.destroy();
      await secure.stop();
    }
  },
);

it('a connection whose call was reset for 60 KiB of headers serves on, however long it is', async () => {
  raw.send(...headerFrames(1, Buffer.concat([HEADERS, literal('x-large', 'v'.repeat(60 * KIB))])));
  await expect.poll(resetCodes).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
  // Two looks at it, which ping it.
  await expect.poll(() => raw.frames.filter(({ type, flags }) => type === FRAME.PING && flags === 0).length).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  raw.send(PING);
  await expect.poll(() => raw.frames.filter(({ type, flags }) => type === FRAME.PING && flags === 1).length).toBe(1);
  expect([raw.isClosed, server.gateway.server.headers.counters.refused]).toEqual([false, 0]);
});
