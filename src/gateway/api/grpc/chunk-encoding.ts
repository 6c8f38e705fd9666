import { GenerateStreamResponse } from '../../../shared/generated/rocmforge/v1/inference.js';

/** Longer texts are left to the library's encoder: a token's is short. */
const MOST_CHARACTERS = 256;
/** Bytes of a varint of 32 bits. */
const VARINT_BYTES = 5;

/**
 * Encodes a message of a generation's stream. What comes with each token, a chunk of content without log probabilities, is written
 * straight into its bytes; the library's encoder, which makes the same ones, is for all else.
 */
export function encodeStreamResponse(message: GenerateStreamResponse): Buffer {
  const { requestId, event } = message;
  if (event?.$case !== 'chunk') return encodeAny(message);
  const { index, tokenIds, text, logprobs, promptLogprobs, reasoning, toolCalls } = event.value;
  const isPlain = logprobs.length === 0 && promptLogprobs.length === 0 && reasoning === '' && toolCalls.length === 0;
  if (!isPlain || text.length > MOST_CHARACTERS || requestId.length > MOST_CHARACTERS) return encodeAny(message);

  let idBytes = 0;
  for (const id of tokenIds) idBytes += varintBytes(id);
  const textBytes = Buffer.byteLength(text);
  const chunkBytes =
    (index === 0 ? 0 : 1 + varintBytes(index)) +
    (idBytes === 0 ? 0 : 1 + varintBytes(idBytes) + idBytes) +
    (textBytes === 0 ? 0 : 1 + varintBytes(textBytes) + textBytes);
  const bytes = Buffer.allocUnsafe(3 * requestId.length + chunkBytes + 2 * (1 + VARINT_BYTES));
  let at = 0;
  if (requestId !== '') {
    bytes[at++] = FIELD_REQUEST_ID;
    at = putVarint(bytes, at, Buffer.byteLength(requestId));
    at += bytes.write(requestId, at);
  }
  bytes[at++] = FIELD_CHUNK;
  at = putVarint(bytes, at, chunkBytes);
  if (index !== 0) {
    bytes[at++] = FIELD_INDEX;
    at = putVarint(bytes, at, index);
  }
  if (idBytes !== 0) {
    bytes[at++] = FIELD_TOKEN_IDS;
    at = putVarint(bytes, at, idBytes);
    for (const id of tokenIds) at = putVarint(bytes, at, id);
  }
  if (textBytes !== 0) {
    bytes[at++] = FIELD_TEXT;
    at = putVarint(bytes, at, textBytes);
    at += bytes.write(text, at);
  }
  return bytes.subarray(0, at);
}

// Number and wire type of fields of GenerateStreamResponse and GenerateChunk.
const FIELD_REQUEST_ID = 0x0a;
const FIELD_CHUNK = 0x12;
const FIELD_INDEX = 0x08;
const FIELD_TOKEN_IDS = 0x12;
const FIELD_TEXT = 0x1a;

function encodeAny(message: GenerateStreamResponse): Buffer {
  const { buffer, byteOffset, byteLength } = GenerateStreamResponse.encode(message).finish();
  return Buffer.from(buffer, byteOffset, byteLength);
}

function varintBytes(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  return value < 0x1000_0000 ? 4 : VARINT_BYTES;
}

/** @returns where the next byte goes */
function putVarint(bytes: Uint8Array, at: number, value: number): number {
  while (value >= 0x80) {
    bytes[at++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  bytes[at++] = value;
  return at;
}
