/** A byte-level BPE vocabulary as GGUF files hold it. */
export interface Vocabulary {
  readonly tokens: readonly string[];
  /** `enum llama_token_type`: 1 normal, 3 control. */
  readonly types: readonly number[];
  /** Each `left right`, in order of rank. */
  readonly merges: readonly string[];
  readonly bos: number;
  readonly eos: number;
}

const NORMAL = 1;
const CONTROL = 3;

/**
 * A vocabulary of exactly `size` tokens that any GGUF engine loads: the 256 bytes, pairs of lower-case letters with and
 * without a space before them, words that nothing merges to, and two control tokens at the end.
 *
 * @param size at least 258
 */
export function syntheticVocabulary(size: number): Vocabulary {
  const tokens = byteAlphabet();
  const merges: string[] = [];
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  for (const left of ['Ġ', ...letters]) {
    for (const right of letters) {
      if (tokens.length >= size - 2) break;
      tokens.push(left + right);
      merges.push(`${left} ${right}`);
    }
  }
  for (let i = 0; tokens.length < size - 2; i++) tokens.push(`Ġword${i}`);
  const types = [...tokens.map(() => NORMAL), CONTROL, CONTROL];
  tokens.push('<|begin_of_text|>', '<|end_of_text|>');
  return { tokens, types, merges, bos: size - 2, eos: size - 1 };
}

/** GPT-2's printable stand-in for each byte, in the order of its vocabulary. */
function byteAlphabet(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const bytes = Array.from({ length: 256 }, (_, byte) => byte);
  const others = bytes.filter((byte) => !printable(byte));
  return [
    ...bytes.filter(printable).map((byte) => String.fromCodePoint(byte)),
    ...others.map((_, i) => String.fromCodePoint(256 + i)),
  ];
}
