/** A message's flag and length. */
const PREFIX_BYTES = 5;

/** A message that begins. */
export interface MessageFrame {
  /** Bytes that all messages of the call have up to its end, without the prefix of the first. */
  readonly callBytes: number;
  /** Its own bytes, as they are sent. */
  readonly bytes: number;
  readonly isCompressed: boolean;
  readonly isFirst: boolean;
}

/** Beginnings of messages in the bytes of a call (grpc/grpc `doc/PROTOCOL-HTTP2.md`, Length-Prefixed-Message). */
export class MessageFrames {
  private readonly prefix = Buffer.alloc(PREFIX_BYTES);
  private prefixBytes = 0;
  /** Bytes of the message under way that are still to come. */
  private left = 0;
  private callBytes = 0;
  private isFirst = true;

  /** The messages whose prefix ends in these bytes, the next of the call. */
  *read(data: Uint8Array): Generator<MessageFrame, void, undefined> {
    for (let at = 0; at < data.length; ) {
      if (this.left > 0) {
        const skipped = Math.min(this.left, data.length - at);
        this.left -= skipped;
        at += skipped;
        continue;
      }
      const taken = data.subarray(at, at + PREFIX_BYTES - this.prefixBytes);
      this.prefix.set(taken, this.prefixBytes);
      this.prefixBytes += taken.length;
      at += taken.length;
      if (this.prefixBytes < PREFIX_BYTES) return;
      this.prefixBytes = 0;
      this.left = this.prefix.readUInt32BE(1);
      const { isFirst, left: bytes } = this;
      this.isFirst = false;
      this.callBytes += isFirst ? bytes : PREFIX_BYTES + bytes;
      yield { callBytes: this.callBytes, bytes, isCompressed: this.prefix.readUInt8(0) === 1, isFirst };
    }
  }
}
