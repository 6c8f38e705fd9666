import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type MessageFrame, MessageFrames } from '../../../../src/gateway/api/grpc/message-frames.js';

/** A message as gRPC frames it. */
function framed(bytes: number, isCompressed: boolean): Buffer {
  const message = Buffer.alloc(5 + bytes, 0xff);
  message.writeUInt8(isCompressed ? 1 : 0, 0);
  message.writeUInt32BE(bytes, 1);
  return message;
}

it('finds each message of a call once, wherever its bytes are cut', () => {
  const messages = fc.array(fc.record({ bytes: fc.nat(40), isCompressed: fc.boolean() }), { maxLength: 8 });
  fc.assert(
    fc.property(messages, fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 }), (sent, cuts) => {
      const call = Buffer.concat(sent.map(({ bytes, isCompressed }) => framed(bytes, isCompressed)));
      const frames = new MessageFrames();
      const found: MessageFrame[] = [];
      for (let at = 0, i = 0; at < call.length; i++) {
        const size = cuts[i % cuts.length] as number;
        found.push(...frames.read(call.subarray(at, at + size)));
        at += size;
      }
      expect(found.map(({ bytes, isCompressed }) => ({ bytes, isCompressed }))).toEqual(sent);
      expect(found.map(({ isFirst }) => isFirst)).toEqual(sent.map((_, i) => i === 0));
      expect(found.at(-1)?.callBytes ?? 0).toBe(Math.max(0, call.length - 5));
    }),
  );
});

it('knows a message by its prefix, before it has come', () => {
  const frames = new MessageFrames();
  const prefix = framed(1000, true).subarray(0, 5);
  expect([...frames.read(prefix.subarray(0, 4))]).toEqual([]);
  expect([...frames.read(prefix.subarray(4))]).toEqual([
    { callBytes: 1000, bytes: 1000, isCompressed: true, isFirst: true },
  ]);
});
