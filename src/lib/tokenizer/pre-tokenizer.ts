import { cut, quoted } from '../support/quoted.js';
import { CodePointClass, LETTER } from '../unicode/code-point-classes.js';
import { TokenizerError } from './error.js';
import {
  bloomWords,
  casedWords,
  deepseekWords,
  digits,
  gpt2Words,
  newline,
  punctuationRun,
  type Rule,
  runOfRanges,
  runOfSet,
  spaceAtEnd,
  spaced,
  spacedRun,
  spacesByLength,
  threeAsciiDigits,
  widthAt,
  words,
} from './pre-tokenizer-rules.js';

/** Rules by which a byte-level BPE cuts text into the pieces that merges stay inside of. */
export interface PreTokenizer {
  /** Each cuts the pieces of the one before into its matches and what lies between them. */
  readonly rules: readonly Rule[];
  /** True if a piece that is a token is taken as it is, without asking the merges. */
  readonly ignoreMerges: boolean;
  /** True if a prompt starts with BOS when the file does not say. */
  readonly addBosByDefault: boolean;
}

const CHINESE_AND_HANGUL = runOfRanges([0x4e00, 0x9fa5], [0x0800, 0x4e00], [0xac00, 0xd7ff]);
const CHINESE_AND_KANA = runOfRanges([0x4e00, 0x9fa5], [0x3040, 0x309f], [0x30a0, 0x30ff]);

/** Letters that have a case, in the version of Unicode that DeepSeek LLM was trained with. */
export const DEEPSEEK_LETTERS = [
  'A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫ',
  'ᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-',
  'ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-',
  '𞥃',
].join('');

/** The families, and the values of `tokenizer.ggml.pre` that name them. */
const FAMILIES: readonly (readonly [names: readonly string[], family: Partial<PreTokenizer> & { rules: Rule[] }])[] = [
  [
    [
      'gpt-2',
      'phi-2',
      'mpt',
      'olmo',
      'jais',
      'gigachat',
      'mellum',
      'exaone4',
      'a.x-4.0',
      'trillion',
      'granite-docling',
      'modern-bert',
      ...['jina-es', 'jina-de', 'jina-v2-es', 'jina-v2-de', 'jina-v2-code', 'jina-v1-en', 'roberta-bpe'],
    ],
    { rules: [gpt2Words] },
  ],
  [
    ['starcoder', 'refact', 'command-r', 'smollm', 'codeshell', 'exaone', 'minerva-7b'],
    { rules: [digits(1), gpt2Words] },
  ],
  [
    ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0', 'lfm2'],
    { rules: [words({ digits: 3 })], ignoreMerges: true, addBosByDefault: true },
  ],
  [['jais-2'], { rules: [words({ digits: 3 }), spacesByLength] }],
  [['dbrx', 'smaug-bpe', 'chatglm-bpe', 'glm4'], { rules: [words({ digits: 3 })] }],
  [
    [
      'qwen2',
      'deepseek-r1-qwen',
      'megrez',
      'stablelm2',
      'hunyuan',
      'grok-2',
      'kormo',
      'solar-open',
      'bailingmoe',
      'bailingmoe2',
      'llada-moe',
    ],
    { rules: [words({ digits: 1 })] },
  ],
  [['seed-coder'], { rules: [words({ digits: 1, linesAfterPunctuation: false })] }],
  [['qwen35'], { rules: [words({ digits: 1, marksAreLetters: true })] }],
  [['gpt-4o', 'llama4', 'kanana2', 'minimax-m2'], { rules: [casedWords({ digits: 3, contractions: true })] }],
  [['tekken'], { rules: [casedWords({ digits: 1, contractions: false })], ignoreMerges: true, addBosByDefault: true }],
  [
    ['deepseek-llm'],
    {
      rules: [
        newline,
        spaced(runOfSet(DEEPSEEK_LETTERS)),
        spaced(runOfSet('!-/:-~！-／：-～‘-‟　-。')),
        spaceAtEnd,
        CHINESE_AND_HANGUL,
        digits(Number.POSITIVE_INFINITY),
      ],
    },
  ],
  [
    ['deepseek-coder'],
    {
      rules: [newline, spacedRun(LETTER), spacedRun(CodePointClass.punctuation), CHINESE_AND_HANGUL, digits(1)],
    },
  ],
  [['deepseek-v3', 'hunyuan-dense'], { rules: [digits(3), CHINESE_AND_KANA, deepseekWords] }],
  [['falcon'], { rules: [punctuationRun(true), gpt2Words, threeAsciiDigits] }],
  [['bloom', 'gpt3-finnish', 'poro-chat'], { rules: [bloomWords] }],
  [['viking'], { rules: [bloomWords, digits(1)] }],
  [['default'], { rules: [punctuationRun(false), gpt2Words, digits(Number.POSITIVE_INFINITY), threeAsciiDigits] }],
];

const BY_NAME: ReadonlyMap<string, PreTokenizer> = new Map(
  FAMILIES.flatMap(([names, family]) =>
    names.map((name) => [name, { ignoreMerges: false, addBosByDefault: false, ...family }] as const),
  ),
);

/**
 * The pre-tokenizer that `tokenizer.ggml.pre` names.
 *
 * @throws TokenizerError `TOKENIZER_UNSUPPORTED` for a name that is not known: a wrong cut gives plausible, wrong ids
 */
export function preTokenizerNamed(name: string | undefined): PreTokenizer {
  const found = name === undefined ? undefined : BY_NAME.get(name);
  if (found !== undefined) return found;
  const problem =
    name === undefined
      ? 'the model file has no "tokenizer.ggml.pre", which says how text is cut; convert the model again'
      : `pre-tokenizer ${quoted(name)} is not supported`;
  throw new TokenizerError('TOKENIZER_UNSUPPORTED', `${problem}; supported: ${[...BY_NAME.keys()].sort().join(', ')}`, {
    pre: cut(name ?? ''),
  });
}

/** Calls `emit` for every piece of `text`, in order and without gaps; offsets are UTF-16 units. */
export function forEachPiece(
  text: string,
  rules: readonly Rule[],
  emit: (start: number, end: number) => void,
  start = 0,
  end = text.length,
  depth = 0,
): void {
  const rule = rules[depth];
  if (rule === undefined) {
    emit(start, end);
    return;
  }
  let unmatched = start;
  let at = start;
  while (at < end) {
    const matchEnd = rule(text, at, end, start);
    if (matchEnd === at) {
      at += widthAt(text, at);
      continue;
    }
    if (unmatched < at) forEachPiece(text, rules, emit, unmatched, at, depth + 1);
    forEachPiece(text, rules, emit, at, matchEnd, depth + 1);
    at = matchEnd;
    unmatched = at;
  }
  if (unmatched < end) forEachPiece(text, rules, emit, unmatched, end, depth + 1);
}
