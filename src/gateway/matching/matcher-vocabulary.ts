import { SPECIAL_TOKEN_BYTE } from '../constraints/special-token-names.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import type { MatcherWorkerData } from './matcher-messages.js';
import { mayFollow } from './well-formed.js';

const NOTHING = new Uint8Array(0);

/**
 * Bytes that UTF-8 never has. The library takes some of them where a grammar excludes characters, and the last would let a
 * special token be spelled.
 */
const isNoText = (byte: number): boolean => byte === 0xc0 || byte === 0xc1 || byte > 0xf4;

/** What all threads share. */
export type MatcherVocabulary = Omit<MatcherWorkerData, 'progress'>;

/**
 * A tokenizer's vocabulary, as all threads share it. Special tokens are in no text, so only a grammar that asks for one by its
 * name allows it; those that end a generation have no bytes at all.
 */
export function matcherVocabulary(tokenizer: Tokenizer): MatcherVocabulary {
  const { vocabularySize, eogIds } = tokenizer;
  const ids = Array.from({ length: vocabularySize }, (_, id) => id);
  const specialIds = ids.filter((id) => tokenizer.isSpecial(id) && !eogIds.has(id) && tokenizer.tokenText(id) !== '');
  const special = new Map(specialIds.map((id) => [id, tokenizer.tokenText(id)]));
  const bytesOf = (id: number): Uint8Array => {
    const name = special.get(id);
    if (name !== undefined) return Uint8Array.of(SPECIAL_TOKEN_BYTE, ...Buffer.from(name), SPECIAL_TOKEN_BYTE);
    if (tokenizer.isSpecial(id) || eogIds.has(id)) return NOTHING;
    const bytes = tokenizer.tokenBytes(id);
    const isText = bytes.every((byte, i) => !isNoText(byte) && mayFollow(bytes[i - 1], byte));
    return isText ? bytes : NOTHING;
  };
  const offsets = new Uint32Array(new SharedArrayBuffer(4 * (vocabularySize + 1)));
  for (const id of ids) offsets[id + 1] = (offsets[id] as number) + bytesOf(id).length;
  const bytes = new Uint8Array(new SharedArrayBuffer(offsets[vocabularySize] as number));
  for (const id of ids) bytes.set(bytesOf(id), offsets[id]);
  const ends = [...eogIds].map((id) => tokenizer.tokenText(id)).filter((name) => name !== '');
  const names = { special: [...new Set(special.values())], ends };
  return { bytes: bytes.buffer, offsets: offsets.buffer, endIds: [...eogIds], names };
}
