import { describe, expect, it } from 'vitest';
import type { AnswerFormat } from '../../../src/gateway/chat/answer/answer-format.js';
import { type AnswerOptions, answerParser } from '../../../src/gateway/request/answer.js';
import { Completion, type CompletionStep, type StopOptions } from '../../../src/gateway/request/completion.js';
import { StopStrings } from '../../../src/lib/tokenizer/stop-matcher.js';
import type { Tokenizer } from '../../../src/lib/tokenizer/tokenizer.js';

const END = '<|im_end|>';
const SPECIAL = ['<tool_call>', '</tool_call>', '<|hidden|>', END];

/** A token a word; those that are special are part of no text. */
class Words {
  private readonly words: string[] = [...SPECIAL];
  readonly tokenizer = {
    eogIds: new Set([SPECIAL.indexOf(END)]),
    addSpacePrefix: false,
    tokenBytes: (id: number) => Buffer.from(this.words[id] as string),
    tokenText: (id: number) => this.words[id] as string,
    isRendered: (id: number) => id >= SPECIAL.length,
  } as unknown as Tokenizer;

  idOf(word: string): number {
    const known = this.words.indexOf(word);
    return known >= 0 ? known : this.words.push(word) - 1;
  }
}

const CALL = ['<tool_call>', '{"name": "clock", ', '"arguments": {"a": ', '"b"}}', '</tool_call>'];
const call = { index: 0, id: expect.stringMatching(/^[A-Za-z0-9]{9}$/), name: 'clock', argumentsJson: '{"a": "b"}' };

interface Options {
  readonly format?: AnswerFormat;
  readonly stop?: Partial<Omit<StopOptions, 'strings'>> & { readonly strings?: string[] };
  readonly answer?: Partial<AnswerOptions>;
}

/** Result of a completion of these words. */
function complete(words: readonly string[], { format = { tools: 'hermes' }, stop, answer }: Options = {}) {
  const vocabulary = new Words();
  const stops: StopOptions = {
    tokenIds: new Set(),
    includeStopString: false,
    ignoreEos: false,
    maxTokens: 100,
    minTokens: 0,
    includeSpecialTokens: false,
    ...stop,
    strings: new StopStrings(stop?.strings ?? []),
  };
  const tools = [{ name: 'clock', parametersJson: '' }];
  const parser = answerParser({ format, tools, start: 'turn', mostCalls: undefined, ...answer });
  const completion = new Completion(vocabulary.tokenizer, stops, parser);
  const steps: CompletionStep[] = [];
  for (const word of words) {
    steps.push(completion.push(vocabulary.idOf(word)));
    if (steps.at(-1)?.finish !== undefined) break;
  }
  const deltas = steps.flatMap(({ beside }) => beside?.toolCalls ?? []);
  const [first, ...more] = deltas;
  const finish = steps.at(-1)?.finish;
  return {
    text: steps.map(({ text }) => text).join(''),
    reasoning: steps.map(({ beside }) => beside?.reasoning ?? '').join(''),
    call: first && { ...first, argumentsJson: [first, ...more].map(({ argumentsJson }) => argumentsJson).join('') },
    reason: finish?.reason,
    match: finish,
    tokens: steps.length,
  };
}

describe('a completion whose answer is read', () => {
  it('sees special tokens that no text has, and ends with its calls', () => {
    expect(complete(['I look.', ...CALL, END])).toMatchObject({
      text: 'I look.',
      call,
      reason: 'tool_calls',
      match: { tokenId: SPECIAL.indexOf(END) },
    });
  });

  it('has no special token in its text that means nothing to the parser', () => {
    expect(complete(['I', '<|hidden|>', ' look.', END])).toMatchObject({ text: 'I look.', reason: 'stop' });
  });

  it('gives the names of tokens back where they mark no call', () => {
    expect(complete(['<tool_call>', 'no', '</tool_call>', END])).toMatchObject({
      text: '<tool_call>no</tool_call>',
      call: undefined,
      reason: 'stop',
    });
  });

  it('reads the same where special tokens are part of the text', () => {
    expect(complete([...CALL, END], { stop: { includeSpecialTokens: true } })).toMatchObject({ text: END, call });
  });

  it('says that it was cut, and not that it calls, where tokens ran out in a call', () => {
    expect(complete(CALL, { stop: { maxTokens: 3 } })).toMatchObject({
      call: { ...call, argumentsJson: '{"a": ' },
      reason: 'length',
    });
  });

  it('says that it stopped where a stop string cut a call', () => {
    expect(complete([...CALL, END], { stop: { strings: ['"b'] } })).toMatchObject({
      call: { ...call, argumentsJson: '{"a": ' },
      reason: 'stop',
      match: { stopString: '"b' },
    });
  });

  it('stops at a stop string behind whole calls, and calls', () => {
    expect(complete([...CALL, 'Observation:'], { stop: { strings: ['Observation:'] } })).toMatchObject({
      text: '',
      call,
      reason: 'tool_calls',
    });
  });

  it('finds a stop string before a marker, and none across it', () => {
    expect(complete(['a', 'b', ...CALL, END], { stop: { strings: ['ab'] } })).toMatchObject({ text: '', tokens: 2 });
    expect(complete(['a', ...CALL, 'b', END], { stop: { strings: ['ab'] } })).toMatchObject({ text: 'ab', call });
  });

  it('stops at a special token whose name is a stop string', () => {
    const stop = { strings: ['<|hidden|>'] };
    const match = { stopString: '<|hidden|>' };
    expect(complete(['Hi', '.', '<|hidden|>', 'user'], { stop })).toMatchObject({ text: 'Hi.', tokens: 3, match });
    const shown = { ...stop, includeStopString: true };
    expect(complete(['Hi.', '<|hidden|>', 'user'], { stop: shown })).toMatchObject({ text: 'Hi.<|hidden|>', match });
    const later = { ...stop, minTokens: 3 };
    expect(complete(['Hi.', '<|hidden|>', 'user', '<|hidden|>'], { stop: later })).toMatchObject({
      text: 'Hi.user',
      match,
    });
    expect(complete(['Hi.', ...CALL], { stop: { strings: ['<tool_call>'] } })).toMatchObject({
      text: 'Hi.',
      call: undefined,
    });
    expect(complete([...CALL, END], { stop: { strings: ['</tool_call>'] } })).toMatchObject({ text: '', call });
    expect(complete(['Hi.', END], { stop: { strings: [END] } })).toMatchObject({
      match: { tokenId: SPECIAL.indexOf(END) },
    });
  });

  it('has no markup as content where tokens run out in it', () => {
    expect(complete(CALL, { stop: { maxTokens: 2 } })).toMatchObject({ text: '', call: undefined, reason: 'length' });
  });

  it('keeps a stop string that is asked for', () => {
    const stop = { strings: ['.'], includeStopString: true };
    expect(complete(['I look.', ...CALL], { stop })).toMatchObject({ text: 'I look.', call: undefined });
  });

  it('ends with its first call where no more are wanted', () => {
    expect(complete([...CALL, ...CALL, END], { answer: { mostCalls: 1 } })).toMatchObject({
      call,
      reason: 'tool_calls',
      tokens: 4,
    });
  });

  it('goes on behind its first call until min_tokens', () => {
    const options = { answer: { mostCalls: 1 }, stop: { minTokens: 7 } };
    expect(complete([...CALL, ...CALL, END], options)).toMatchObject({ call, reason: 'tool_calls', tokens: 7 });
  });

  it('parts what it thinks from what it says', () => {
    const words = ['<think>', '\nHm', '.\n', '</think>', '\n\nYes', '.', END];
    expect(complete(words, { format: { reasoning: 'think' } })).toMatchObject({
      reasoning: 'Hm.',
      text: 'Yes.',
      reason: 'stop',
    });
  });
});
