import { SPECIAL_TOKEN_BYTE } from '../../lib/grammar/grammar-buffer.js';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';
import { type MaskVocabulary, maskAddon } from './mask-addon.js';

const NOTHING = new Uint8Array(0);

/**
 * A tokenizer's vocabulary for masks. Special tokens are in no text, so only a grammar that asks for one by its name allows it: its
 * bytes are its name between two of `SPECIAL_TOKEN_BYTE`. Those that end a generation have no bytes at all.
 *
 * @returns the vocabulary, and which tokens are no text. Takes about 0.3 s for 150,000 tokens
 */
export function vocabularyOf(tokenizer: Tokenizer): { vocabulary: MaskVocabulary; names: SpecialTokenNames } {
  const { vocabularySize, eogIds } = tokenizer;
  const special = new Map<number, string>();
  const offsets = new Uint32Array(vocabularySize + 1);
  const parts: Uint8Array[] = [];
  for (let id = 0; id < vocabularySize; id++) {
    const name = tokenizer.isSpecial(id) && !eogIds.has(id) ? tokenizer.tokenText(id) : '';
    if (name !== '') special.set(id, name);
    const bytes = bytesOf(tokenizer, id, name);
    parts.push(bytes);
    offsets[id + 1] = (offsets[id] as number) + bytes.length;
  }
  const ends = [...eogIds].map((id) => tokenizer.tokenText(id)).filter((name) => name !== '');
  const { MaskVocabulary } = maskAddon();
  return {
    vocabulary: new MaskVocabulary(new Uint8Array(Buffer.concat(parts)), offsets, Uint32Array.from(eogIds)),
    names: { special: [...new Set(special.values())], ends },
  };
}

function bytesOf(tokenizer: Tokenizer, id: number, name: string): Uint8Array {
  if (name !== '') return Uint8Array.of(SPECIAL_TOKEN_BYTE, ...Buffer.from(name), SPECIAL_TOKEN_BYTE);
  if (tokenizer.isSpecial(id) || tokenizer.eogIds.has(id)) return NOTHING;
  const bytes = tokenizer.tokenBytes(id);
  // With that byte a special token could be spelled.
  return bytes.includes(SPECIAL_TOKEN_BYTE) ? NOTHING : bytes;
}
