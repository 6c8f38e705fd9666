import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { markersOf, TOOL_PARSERS, type ToolParser } from '../../../../src/gateway/chat/answer/answer-format.js';
import { runs } from '../../../support/run-size.js';
import { cut, readTurn, type WholeTurn } from './turns.js';

/** Pieces of which calls are made, and what is in none. */
const PIECES = [
  ...['{', '}', '[', ']', '"', ':', ', ', '\\', ' ', '\n', '<', '>', '=', '😀', '\ud83d', '```json\n'],
  ...['{"name": "weather", "arguments": ', '{"place": "', '"}', '}}', '"id": "', 'null', '<tool_', '<|', '<｜'],
  ...[
    'weather',
    'function',
    'to=functions.weather',
    'commentary',
    '<function=weather>',
    '<parameter=place>',
    '</parameter>',
  ],
];

const formatOf = (tools: ToolParser) =>
  ({
    tools,
    reasoning: tools === 'harmony' ? 'harmony' : tools === 'mistral' || tools === 'gemma4' ? tools : 'think',
  }) as const;

const JSON_CALL = [
  '{',
  '"name": "',
  'weather',
  '", ',
  '"arguments": ',
  '{"place": "',
  'WORD',
  '", "days": ',
  '2',
  '}',
  '}',
];
const NAMED = ['{"place": "', 'WORD', '"', '}'];

/** The pieces of a call of each format. */
const CALLS: Readonly<Record<ToolParser, readonly string[]>> = {
  hermes: ['<tool_call>', '\n', ...JSON_CALL, '\n', '</tool_call>'],
  llama3: ['<|python_tag|>', ...JSON_CALL, '; ', ...JSON_CALL],
  mistral: ['[TOOL_CALLS]', '[', ...JSON_CALL, ', ', ...JSON_CALL, ']', '[TOOL_CALLS]', 'weather', '[ARGS]', ...NAMED],
  glm: [
    '<tool_call>',
    'weather',
    '\n',
    '<arg_key>',
    'place',
    '</arg_key>',
    '<arg_value>',
    'WORD',
    '</arg_value>',
    '</tool_call>',
  ],
  deepseek: [
    '<｜tool▁calls▁begin｜>',
    '<｜tool▁call▁begin｜>',
    'weather',
    '<｜tool▁sep｜>',
    ...NAMED,
    '<｜tool▁call▁end｜>',
    '<｜tool▁calls▁end｜>',
  ],
  'functionary-v3.2': ['>>>', 'weather\n', ...NAMED, '>>>', 'all\n', 'WORD'],
  functionary: ['<function=', 'weather', '>', ...NAMED, '</function>'],
  firefunction: ['functools', '[', ...JSON_CALL, ', ', ...JSON_CALL, ']'],
  harmony: [
    '<|start|>assistant',
    '<|channel|>',
    'commentary ',
    'to=functions.weather',
    '<|message|>',
    ...NAMED,
    '<|call|>',
  ],
  gemma4: [
    '<|tool_call>',
    'call:weather',
    '{',
    'place',
    ':',
    '<|"|>',
    'WORD',
    '<|"|>',
    ',',
    'tags:[',
    '2',
    ']',
    '}',
    '<tool_call|>',
  ],
  'qwen3-coder': [
    '<tool_call>',
    '\n',
    '<function=',
    'weather',
    '>',
    '\n',
    '<parameter=',
    'place',
    '>',
    '\n',
    'WORD',
    '\n</parameter>',
    '</function>',
    '</tool_call>',
  ],
  'seed-oss': [
    '<seed:tool_call>',
    '\n',
    '<function=',
    'weather',
    '>',
    '\n',
    '<parameter=',
    'place',
    '>',
    'WORD',
    '</parameter>',
    '\n',
    '</function>',
    '</seed:tool_call>',
  ],
};

/** Any text of calls, pieces and markers of a format, some of it put in or left out, with words that stand nowhere else. */
function anyText(tools: ToolParser) {
  const piece = fc.constantFrom(...PIECES, ...markersOf(formatOf(tools)), 'WORD');
  const call = fc.constant(CALLS[tools]);
  const texts = fc.array(fc.oneof(call, fc.array(piece, { maxLength: 4 })), { maxLength: 5 });
  const edits = fc.array(fc.tuple(fc.nat(60), fc.nat(2), piece), { maxLength: 3 });
  return fc.tuple(texts, edits).map(([parts, changes]) => {
    const pieces = parts.flat();
    for (const [at, left, put] of changes) pieces.splice(at % (pieces.length + 1), left, ...(left === 2 ? [] : [put]));
    return pieces.map((text, i) => (text === 'WORD' ? `Word${i}.` : text));
  });
}

const told = ({ content = '', reasoning = '', calls = [] }: WholeTurn): string =>
  [content, reasoning, ...calls.flatMap(({ name, args, id = '' }) => [name, args, id])].join('\0');

describe.each(TOOL_PARSERS)('any text of pieces of %s', (tools) => {
  it('says the same however it is cut', () => {
    fc.assert(
      fc.property(anyText(tools), fc.array(fc.nat(400), { maxLength: 8 }), (pieces, at) => {
        const text = pieces.join('');
        const whole = readTurn(formatOf(tools), [text]);
        expect(readTurn(formatOf(tools), pieces)).toEqual(whole);
        expect(readTurn(formatOf(tools), [...text])).toEqual(whole);
        expect(
          readTurn(
            formatOf(tools),
            cut(
              text,
              at.map((place) => place % (text.length + 1)),
            ),
          ),
        ).toEqual(whole);
      }),
      { numRuns: runs(400) },
    );
  });

  it('loses no word', () => {
    fc.assert(
      fc.property(anyText(tools), (pieces) => {
        const all = told(readTurn(formatOf(tools), pieces));
        // Parts of a header of harmony next to channel and recipient, and members of a call next to those that are known, are
        // markup.
        const markup = /<\|(start|channel)\|>(?:(?!<\|(?:message|end|call|return)\|>).)*<\|message\|>/gs;
        const words =
          pieces
            .join('')
            .replace(tools === 'harmony' ? markup : /(?!)/g, '')
            .match(/Word\d+\./g) ?? [];
        expect(words.filter((word) => !all.includes(word))).toEqual([]);
      }),
      { numRuns: runs(400) },
    );
  });
});
