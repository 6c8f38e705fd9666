import type { GgufMetadata } from '../gguf/metadata.js';
import type { Tokenizer } from './tokenizer.js';

/** Tokens of a model that was trained to fill in the middle of a text. */
export interface FillInTokens {
  readonly prefix: number;
  readonly suffix: number;
  readonly middle: number;
  /** Begins the name of a repository; absent where the model knows none. */
  readonly repository: number | undefined;
  /** Begins a file. */
  readonly file: number | undefined;
  /** Begins each prompt, where the model wants one. */
  readonly bos: number | undefined;
}

/** Metadata keys and names of each, as llama.cpp looks for them. */
const SOURCES = {
  prefix: [
    ['fim_pre', 'prefix'],
    ['<|fim_prefix|>', '<fim-prefix>', '<fim_prefix>', '<｜fim▁begin｜>', '<PRE>', '▁<PRE>', '<|code_prefix|>'],
  ],
  suffix: [
    ['fim_suf', 'suffix'],
    ['<|fim_suffix|>', '<fim-suffix>', '<fim_suffix>', '<｜fim▁hole｜>', '<SUF>', '▁<SUF>', '<|code_suffix|>'],
  ],
  middle: [
    ['fim_mid', 'middle'],
    ['<|fim_middle|>', '<fim-middle>', '<fim_middle>', '<｜fim▁end｜>', '<MID>', '▁<MID>', '<|code_middle|>'],
  ],
  repository: [['fim_rep'], ['<|fim_repo|>', '<|repo_name|>', '<fim-repo>', '<REPO>', '<reponame>']],
  file: [['fim_sep'], ['<|file_sep|>']],
} as const;

/** The model's tokens; undefined if one of prefix, suffix and middle is missing. */
export function fillInTokens(metadata: GgufMetadata, tokenizer: Tokenizer): FillInTokens | undefined {
  const texts = metadata.strings('tokenizer.ggml.tokens') ?? [];
  const idOf = (name: keyof typeof SOURCES): number | undefined => {
    const [keys, names] = SOURCES[name];
    for (const key of keys) {
      const id = metadata.number(`tokenizer.ggml.${key}_token_id`);
      if (id !== undefined && id >= 0 && id < texts.length) return id;
    }
    const ids = names.map((text) => texts.indexOf(text));
    return ids.find((id) => id >= 0 && tokenizer.isSpecial(id));
  };
  const [prefix, suffix, middle] = [idOf('prefix'), idOf('suffix'), idOf('middle')];
  if (prefix === undefined || suffix === undefined || middle === undefined) return undefined;
  const bos = tokenizer.addBos ? tokenizer.bosId : undefined;
  return { prefix, suffix, middle, repository: idOf('repository'), file: idOf('file'), bos };
}
