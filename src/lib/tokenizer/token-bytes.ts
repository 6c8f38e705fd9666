import { byteOfCharacter } from './byte-alphabet.js';
import { TokenType, type Vocabulary } from './vocabulary.js';

/** A vocabulary's spelling of its tokens. */
export type Spelling = 'byte-level' | 'sentencepiece';

/** The bytes of every token in one block: a table of 128,000 small arrays would be 10 MB of headers. */
export class TokenBytes {
  private readonly block: Uint8Array;
  /** Token `id` is `block[offsets[id], offsets[id + 1])`. */
  private readonly offsets: Uint32Array;

  constructor(vocabulary: Vocabulary, spelling: Spelling) {
    const decode = spelling === 'byte-level' ? decodeByteLevel : decodeSentencePiece;
    this.offsets = new Uint32Array(vocabulary.size + 1);
    const chunks: Uint8Array[] = [];
    for (let id = 0; id < vocabulary.size; id++) {
      const bytes = decode(vocabulary.texts[id]!, vocabulary.types[id]!);
      chunks.push(bytes);
      this.offsets[id + 1] = this.offsets[id]! + bytes.length;
    }
    this.block = new Uint8Array(this.offsets[vocabulary.size]!);
    for (let id = 0; id < chunks.length; id++) this.block.set(chunks[id]!, this.offsets[id]!);
  }

  /** A view of the token's bytes; do not write to it. */
  of(id: number): Uint8Array {
    return this.block.subarray(this.offsets[id]!, this.offsets[id + 1]!);
  }
}

/** Named tokens are spelled plainly, all others in the byte alphabet; what is outside of it stands for itself. */
function decodeByteLevel(text: string, type: number): Uint8Array {
  if (type === TokenType.control || type === TokenType.unknown || type === TokenType.userDefined) {
    return Buffer.from(text);
  }
  const bytes: number[] = [];
  for (const character of text) {
    const byte = byteOfCharacter(character);
    if (byte === undefined) bytes.push(...Buffer.from(character));
    else bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

function decodeSentencePiece(text: string, type: number): Uint8Array {
  if (type === TokenType.byte) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(text);
    return byte === null ? Buffer.from(text) : Uint8Array.of(Number.parseInt(byte[1]!, 16));
  }
  return Buffer.from(type === TokenType.normal || type === TokenType.unused ? text.replaceAll('▁', ' ') : text);
}
