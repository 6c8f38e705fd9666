import { constants } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import { InferenceServiceService } from '../../src/shared/generated/rocmforge/v1/inference.js';

/** Types of frames. */
export const FRAME = { DATA: 0, HEADERS: 1, RST_STREAM: 3, SETTINGS: 4, PING: 6, GOAWAY: 7, CONTINUATION: 9 };
export const END_HEADERS = 4;
export const END_STREAM = 1;

/** A frame as its bytes. */
export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export const PING = frame(FRAME.PING, 0, 0, Buffer.alloc(8, 1));
export const SETTINGS = frame(FRAME.SETTINGS, 0, 0);
/** Cancels a stream. */
export const reset = (stream: number) =>
  frame(FRAME.RST_STREAM, 0, stream, Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]));

/** A header that HPACK does not index, each in as many bytes as it has. */
export function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), lengthOf(value.length), Buffer.from(value)]);
}

/** A length as HPACK writes it, in a prefix of seven bits. */
function lengthOf(length: number): Buffer {
  if (length < 127) return Buffer.from([length]);
  const bytes = [127];
  let rest = length - 127;
  for (; rest >= 128; rest >>= 7) bytes.push((rest & 127) | 128);
  return Buffer.from([...bytes, rest]);
}

/** Headers of a call to `GetModel`. */
export const HEADERS = Buffer.concat([
  literal(':method', 'POST'),
  literal(':scheme', 'http'),
  literal(':path', InferenceServiceService.getModel.path),
  literal(':authority', 'localhost'),
  literal('content-type', 'application/grpc'),
  literal('te', 'trailers'),
]);
/** Opens a call to `GetModel`. */
export const opens = (stream: number, flags = END_HEADERS) => frame(FRAME.HEADERS, flags, stream, HEADERS);

/** A client that speaks HTTP/2 in frames of its own choice. */
export class RawClient {
  readonly frames: { readonly type: number; readonly flags: number; readonly payload: Buffer }[] = [];
  readonly socket: Socket;
  isClosed = false;
  private rest: Buffer = Buffer.alloc(0);

  /** @param to a port of this machine, or a connection */
  constructor(to: number | Socket) {
    this.socket = typeof to === 'number' ? connectSocket(to, '127.0.0.1') : to;
    this.socket.on('error', () => undefined);
    this.socket.once('close', () => {
      this.isClosed = true;
    });
    this.socket.on('data', (data) => this.read(data));
    this.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), SETTINGS);
  }

  send(...frames: Uint8Array[]): void {
    if (!this.isClosed) this.socket.write(Buffer.concat(frames));
  }

  /** Error code of the server when it ended the connection. */
  get goaway(): number | undefined {
    return this.frames.find(({ type }) => type === FRAME.GOAWAY)?.payload.readUInt32BE(4);
  }

  /** The codes with which streams were reset. */
  get resetCodes(): number[] {
    return this.frames.filter(({ type }) => type === FRAME.RST_STREAM).map(({ payload }) => payload.readUInt32BE(0));
  }

  count(type: number): number {
    return this.frames.filter((received) => received.type === type).length;
  }

  private read(data: Buffer): void {
    this.rest = Buffer.concat([this.rest, data]);
    while (this.rest.length >= 9) {
      const length = this.rest.readUIntBE(0, 3);
      if (this.rest.length < 9 + length) return;
      this.frames.push({
        type: this.rest.readUInt8(3),
        flags: this.rest.readUInt8(4),
        payload: this.rest.subarray(9, 9 + length),
      });
      this.rest = this.rest.subarray(9 + length);
    }
  }
}
