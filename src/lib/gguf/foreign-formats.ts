const ascii = (text: string) => (head: Uint8Array) =>
  Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1').startsWith(text);

/** Formats that are mistaken for GGUF, by their first bytes, each with the way out. */
const SIGNATURES: readonly { readonly matches: (head: Uint8Array) => boolean; readonly advice: string }[] = [
  {
    // A little-endian u64 with the length of the JSON header, then the JSON itself.
    matches: (head) => head[8] === 0x7b && head[5] === 0 && head[6] === 0 && head[7] === 0,
    advice: 'this looks like safetensors; convert it with llama.cpp convert_hf_to_gguf.py',
  },
  {
    matches: ascii('PK\x03\x04'),
    advice: 'this looks like a PyTorch zip checkpoint; convert it with llama.cpp convert_hf_to_gguf.py',
  },
  {
    matches: (head) => head[0] === 0x80 && head[1] !== undefined && head[1] >= 2 && head[1] <= 5,
    advice: 'this looks like a Python pickle (an old PyTorch checkpoint); convert it to GGUF',
  },
  ...['lmgg', 'fmgg', 'tjgg', 'algg'].map((magic) => ({
    matches: ascii(magic),
    advice: 'this looks like a GGML legacy file from before GGUF; download the model again as GGUF',
  })),
  {
    matches: ascii('version https://git-lfs'),
    advice: 'this is a Git LFS pointer, not the model; run "git lfs pull"',
  },
  {
    matches: (head) => /^\s*<(!doctype|html)/i.test(Buffer.from(head).toString('latin1')),
    advice: 'this is a web page, not the model; the download went wrong',
  },
];

/** Number of bytes of a file that {@link recogniseForeignFormat} reads. */
export const FOREIGN_HEAD_BYTES = 32;

/** One clause on what a file with these first bytes seems to be, or `undefined`. */
export function recogniseForeignFormat(head: Uint8Array): string | undefined {
  return SIGNATURES.find(({ matches }) => matches(head))?.advice;
}
