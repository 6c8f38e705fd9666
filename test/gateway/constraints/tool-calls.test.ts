// One file because all tests read the calls of one set of formats.
import { describe, expect, it } from 'vitest';
import { CALL_FORMATS } from '../../../src/gateway/chat/answer/answer-format.js';
import { FUNCTIONARY_V3_TURN } from '../../../src/gateway/chat/answer/functionary-v3.js';
import { HARMONY_REASONING, HARMONY_TURN } from '../../../src/gateway/chat/answer/harmony.js';
import { toolGrammar } from '../../../src/gateway/chat/answer/tool-grammar.js';
import { type GivenConstraint, grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import type { ForcedToolCalls } from '../../../src/gateway/constraints/tool-calls-grammar.js';
import { answerParser } from '../../../src/gateway/request/answer.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';
import { CONSTRAINT_LIMITS } from '../../../src/lib/grammar/limits.js';
import type { RocmForgeError } from '../../../src/shared/errors.js';
import { type ToolChoice, ToolChoiceMode } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { acceptedBy } from '../../support/byte-engine.js';

const PLACE = { type: 'object', properties: { place: { enum: ['Rome', '東京'] } }, required: ['place'] };
const HOUR = { properties: { hour: { type: 'integer', minimum: 0, maximum: 23 } }, additionalProperties: false };
const tool = (name: string, parameters: object | undefined) => ({
  name,
  parametersJson: parameters === undefined ? '' : JSON.stringify(parameters),
});
const TOOLS = [tool('weather', PLACE), tool('clock', HOUR), tool('halt', undefined)];
const REQUIRED: ToolChoice = { choice: { $case: 'mode', value: ToolChoiceMode.REQUIRED } };

/** Calls that must come, as Hermes writes them. */
function demanded(
  parts: { tools?: typeof TOOLS; toolChoice?: ToolChoice; isParallel?: boolean; template?: string } = {},
  reasoning?: ForcedToolCalls['reasoning'],
): GivenConstraint {
  const { tools = TOOLS, toolChoice = REQUIRED, isParallel = true, template = '' } = parts;
  const format = template === '' ? 'hermes' : 'mistral';
  const calls = toolGrammar(tools, { format, template, toolChoice, isParallel }) as ForcedToolCalls['calls'];
  return { $case: 'toolCalls', value: { calls, openers: ['<tool_call>'], isBare: false, reasoning } };
}

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const WEATHER = call('weather', '{"place": "東京"}');
const CLOCK = call('clock', '{"hour":7}');

async function expectTexts(constraint: GivenConstraint, taken: readonly string[], others: readonly string[]) {
  expect(await acceptedBy(grammarOf(constraint), [...taken, ...others])).toEqual(taken);
}

describe('a turn that must call', () => {
  it('is calls whose arguments satisfy the schema of their own function', async () => {
    await expectTexts(
      demanded(),
      [WEATHER, CLOCK, call('clock', '{}'), call('halt', '{}'), `${WEATHER}\n${CLOCK}\n${WEATHER}`],
      [
        '',
        'No.',
        `So: ${WEATHER}`,
        `${WEATHER} `,
        `${WEATHER}${CLOCK}`,
        call('weather', '{}'),
        call('weather', '{"place": "Paris"}'),
        call('weather', '{"hour":7}'),
        call('clock', '{"hour":24}'),
        call('clock', '{"place": "Rome"}'),
        call('halt', '{"now":true}'),
        call('other', '{}'),
        WEATHER.slice(0, -1),
      ],
    );
  });

  it('has objects for arguments, whatever else a schema allows', async () => {
    const tools = [tool('any', {}), tool('loose', { minimum: 3 })];
    await expectTexts(
      demanded({ tools }),
      [call('any', '{"a": [1, null]}'), call('loose', '{}')],
      [call('any', '3'), call('any', 'null'), call('loose', '5'), call('loose', '[]')],
    );
  });

  it('keeps schemas apart that look alike', async () => {
    const of = (pattern: string) => ({
      type: 'object',
      properties: { x: { $ref: '#/$defs/x' } },
      required: ['x'],
      additionalProperties: false,
      $defs: { x: { type: 'string', pattern } },
    });
    await expectTexts(
      demanded({ tools: [tool('a', of('^a+$')), tool('b', of('^b+$'))] }),
      [call('a', '{"x":"aa"}'), call('b', '{"x":"b"}')],
      [call('a', '{"x":"b"}'), call('b', '{"x":"aa"}')],
    );
  });

  it('calls the function that is named, once', async () => {
    const toolChoice: ToolChoice = { choice: { $case: 'function', value: 'clock' } };
    await expectTexts(demanded({ toolChoice }), [CLOCK], [WEATHER, `${CLOCK}\n${CLOCK}`]);
  });

  it('calls once where no more are wanted, else as often as the limit says', async () => {
    await expectTexts(demanded({ isParallel: false }), [WEATHER], [`${WEATHER}\n${CLOCK}`]);
    const times = (count: number) => Array.from({ length: count }, () => CLOCK).join('\n');
    await expectTexts(demanded(), [times(CONSTRAINT_LIMITS.calls)], [times(CONSTRAINT_LIMITS.calls + 1)]);
  });

  it('has brackets and commas around them where its format has', async () => {
    const listed = (...names: string[]) =>
      `[TOOL_CALLS][${names.map((name) => `{"name": "${name}", "arguments": {}}`).join(', ')}]`;
    await expectTexts(
      demanded({ template: 'the older list' }),
      [listed('halt'), listed('halt', 'clock')],
      [listed(), listed('halt').slice(0, -1)],
    );
  });
});

describe('a turn that may call', () => {
  const MAY: ToolChoice | undefined = undefined;
  const may = (
    format: 'hermes' | 'llama3',
    isParallel = true,
    reasoning?: ForcedToolCalls['reasoning'],
  ): GivenConstraint => {
    const calls = toolGrammar(TOOLS, { format, template: '', toolChoice: MAY, isParallel }) as ForcedToolCalls['calls'];
    const { openers, isBare = false } = CALL_FORMATS[format];
    return { $case: 'toolCalls', value: { calls, openers, isBare, reasoning } };
  };

  it('is text in which no call begins, and calls of their schemas behind it', async () => {
    await expectTexts(
      may('hermes'),
      ['', 'No. {"a": 1}', WEATHER, `So, <b> <tool_cal\n${WEATHER}\n${CLOCK}`, `<tool_call${CLOCK}`, '</tool_call>'],
      [
        `So: ${call('weather', '{"place": "Paris"}')}`,
        call('clock', '{"hour":24}'),
        'So <tool_call>',
        '<tool_call>\n{"name": "other"}',
        `${WEATHER} Done.`,
        `<tool_call>${WEATHER}`,
      ],
    );
    await expectTexts(may('hermes', false), [`So ${WEATHER}`], [`So ${WEATHER}\n${CLOCK}`]);
  });

  it('is text or calls where calls have no beginning of their own', async () => {
    const bare = (args: string) => `{"name": "clock", "parameters": ${args}}`;
    await expectTexts(
      may('llama3'),
      ['', 'No.', `So ${bare('{"hour":24}')}`, bare('{"hour":7}'), `${bare('{}')}; ${bare('{"hour":7}')}`],
      [bare('{"hour":24}'), ` ${bare('{}')}`, '{', '\n{"a": 1}', `So <|python_tag|>${bare('{}')}`],
    );
  });

  it('may think first, of calls too', async () => {
    await expectTexts(
      may('hermes', true, { begin: '<think>', end: '</think>', isBegun: true }),
      [`Hm ${call('clock', '{"hour":24}')}</think>So.`, `</think>\n\n${WEATHER}`, '</think>'],
      ['Hm', `</think>${call('clock', '{"hour":24}')}`],
    );
  });
});

describe('a turn that thinks before it must call', () => {
  const think = { begin: '<think>', end: '</think>' };

  it('may begin with what it thinks', async () => {
    await expectTexts(
      demanded({}, { ...think, isBegun: false }),
      [WEATHER, `<think>\nWhere? <</thin ${CLOCK}\n</think>\n\n${WEATHER}`, `<think></think>${WEATHER}`],
      ['<think>So.', '<think></think>', `<think>${WEATHER}`, `So.</think>${WEATHER}`, `<think></think>So.${WEATHER}`],
    );
  });

  it('ends what the prompt has begun', async () => {
    await expectTexts(
      demanded({}, { ...think, isBegun: true }),
      [`So.</think>${WEATHER}`, `\n</think>\n\n${WEATHER}\n${CLOCK}`, `<think>So.</think>${WEATHER}`],
      [WEATHER, `So.</think></think>${WEATHER}`],
    );
  });
});

describe('arguments between tags', () => {
  const BOOK = {
    type: ['object', 'null'],
    properties: {
      title: { type: 'string', description: 'as it is' },
      kind: { enum: ['novel', '詩'] },
      shelf: { type: 'string', const: 'a', enum: ['a', 'b'] },
      pages: { type: 'integer', minimum: 1 },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['title', 'pages'],
  };
  const forms = {
    glm: {
      call: (name: string, args: string) => `<tool_call>${name}\n${args}</tool_call>`,
      argument: (name: string, value: string) => `<arg_key>${name}</arg_key>\n<arg_value>${value}</arg_value>\n`,
      end: '</arg_value>',
    },
    'qwen3-coder': {
      call: (name: string, args: string) => `<tool_call>\n<function=${name}>\n${args}</function>\n</tool_call>`,
      argument: (name: string, value: string) => `<parameter=${name}>\n${value}\n</parameter>\n`,
      end: '</parameter>',
    },
    'seed-oss': {
      call: (name: string, args: string) =>
        `<seed:tool_call>\n<function=${name}>\n${args}</function>\n</seed:tool_call>`,
      argument: (name: string, value: string) => `<parameter=${name}>${value}</parameter>\n`,
      end: '</parameter>',
    },
  } as const;
  type Form = keyof typeof forms;
  const held = (format: Form, tools: typeof TOOLS): GivenConstraint => {
    const calls = toolGrammar(tools, {
      format,
      template: '',
      toolChoice: REQUIRED,
      isParallel: true,
    }) as ForcedToolCalls['calls'];
    return { $case: 'toolCalls', value: { calls, openers: ['<tool_call>'], isBare: false } };
  };

  it.each(Object.keys(forms) as Form[])('are of the schema, and are read as what they say: %s', async (format) => {
    const { call, argument, end } = forms[format];
    const args = (...given: [string, string][]) => given.map(([name, value]) => argument(name, value)).join('');
    const tools = [tool('book', BOOK), tool('halt', undefined), tool('any', { type: 'object' })];
    const taken = [
      call(
        'book',
        args(['title', 'The "Fox"\n< and > all'], ['kind', '詩'], ['pages', '7'], ['tags', '["a", "\\u003cb"]']),
      ),
      call('book', args(['title', ''], ['pages', '12'])),
      call('halt', ''),
      call('any', args(['x', 'y'], ['z', '1'])),
    ];
    await expectTexts(
      held(format, tools),
      [...taken, `${taken[1]}\n${taken[2]}`],
      [
        '',
        call('book', args(['title', 'x'])),
        call('book', args(['pages', '7'], ['title', 'x'])),
        call('book', args(['title', 'x'], ['pages', '0'])),
        call('book', args(['title', 'x'], ['pages', 'many'])),
        call('book', args(['title', 'x'], ['kind', 'film'], ['pages', '7'])),
        call('book', args(['title', 'x'], ['shelf', 'b'], ['pages', '7'])),
        call('book', args(['title', `x${end}y`], ['pages', '7'])),
        call('book', args(['title', 'x'], ['pages', '7'], ['tags', `["a${end}"]`])),
        call('book', args(['title', 'x'], ['pages', '7'], ['more', '1'])),
        call('halt', args(['now', 'true'])),
        call('other', ''),
      ],
    );
    const parser = answerParser({ format: { tools: format }, tools, start: 'turn', mostCalls: undefined });
    const parts = [...parser.push(taken[0]!), ...parser.finish()];
    const json = parts.map((part) => (part.kind === 'arguments' ? part.text : '')).join('');
    expect(JSON.parse(json)).toEqual({ title: 'The "Fox"\n< and > all', kind: '詩', pages: 7, tags: ['a', '<b'] });
  });

  it.each([
    [{ ...BOOK, minProperties: 3 }, '/minProperties'],
    [{ properties: { title: { type: 'string', minLength: 2 } } }, '/properties/title/minLength'],
    [{ properties: { title: { type: 'string' } }, required: ['other'] }, '/required'],
    [{ required: ['other'] }, '/required'],
    [{ additionalProperties: { type: 'integer' } }, '/additionalProperties'],
    [{ properties: { 'two words': { type: 'string' } } }, '/properties'],
  ])('are refused where %j says more', (parameters, at) => {
    expect(() => grammarOf(held('glm', [tool('odd', parameters)]))).toThrow(
      expect.objectContaining({ reason: 'CONSTRAINT_UNSUPPORTED', metadata: expect.objectContaining({ at }) }),
    );
  });
});

describe('a turn of harmony that must call', () => {
  const calls = (isParallel: boolean) =>
    toolGrammar(TOOLS, {
      format: 'harmony',
      template: '',
      toolChoice: REQUIRED,
      isParallel,
    }) as ForcedToolCalls['calls'];
  const held = (isParallel: boolean): GivenConstraint => ({
    $case: 'toolCalls',
    value: {
      calls: calls(isParallel),
      openers: [],
      isBare: false,
      reasoning: { ...HARMONY_REASONING, isBegun: false },
    },
  });
  const call = (name: string, args: string) =>
    `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${args}`;
  const thought = '<|channel|>analysis<|message|>So.\nNow.<|end|><|start|>assistant';

  it.each([true, false])('is one call, behind reasoning or not, whatever is said of several (%s)', (isParallel) =>
    expectTexts(
      held(isParallel),
      [call('clock', '{"hour":7}'), `${thought}${call('weather', '{"place": "東京"}')}`],
      [
        '',
        'No.',
        thought,
        `${thought}<|channel|>final<|message|>No.`,
        `${thought}\n${call('clock', '{}')}`,
        call('clock', '{"hour":24}'),
        call('other', '{}'),
        `${call('clock', '{}')}<|call|>`,
        `${call('clock', '{}')}<|start|>assistant${call('clock', '{}')}`,
      ],
    ),
  );

  it('asks for its markup as special tokens, and for none that ends it', () => {
    const special = ['<|channel|>', '<|message|>', '<|constrain|>', '<|start|>', '<|end|>'];
    const rules = grammarOf(held(true), { special, ends: ['<|call|>', '<|return|>'] });
    const buffer = Buffer.from(grammarBuffer(rules)).toString('latin1');
    expect(buffer).not.toContain('<|call|>');
    for (const name of special) expect(buffer).toContain(`\u00ff${name}\u00ff`);
  });
});

describe('a turn of harmony that may call', () => {
  const calls = toolGrammar(TOOLS, { format: 'harmony', template: '', toolChoice: undefined, isParallel: true });
  const reasoning = { ...HARMONY_REASONING, isBegun: false };
  const value = {
    calls: calls as ForcedToolCalls['calls'],
    openers: [],
    isBare: false,
    messages: HARMONY_TURN,
    reasoning,
  };
  const thought = '<|channel|>analysis<|message|>So.<|end|><|start|>assistant';
  const said = '<|channel|>final<|message|>No.\n{"hour": 99}';
  const about = '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant';
  const call = (args: string) => `<|channel|>commentary to=functions.clock <|constrain|>json<|message|>${args}`;

  it('answers, or calls by the schema, behind reasoning and what it says of it', () =>
    expectTexts(
      { $case: 'toolCalls', value },
      [
        said,
        `${thought}${said}`,
        call('{"hour":7}'),
        `${thought}${call('{"hour":7}')}`,
        `${thought}${about}${call('{"hour":7}')}`,
      ],
      [
        'No.',
        about,
        `${thought}${about}${said}`,
        call('{"hour":24}'),
        `${said}<|start|>assistant${call('{"hour":24}')}`,
      ],
    ));
});

describe('a turn of Functionary 3.2, whose prompt ends with the first opener', () => {
  const held = (toolChoice: ToolChoice | undefined): GivenConstraint => {
    const calls = toolGrammar(TOOLS, { format: 'functionary-v3.2', template: '', toolChoice, isParallel: true });
    const value = { openers: [], isBare: false, messages: FUNCTIONARY_V3_TURN };
    return { $case: 'toolCalls', value: { ...value, calls: calls as ForcedToolCalls['calls'], reasoning: undefined } };
  };
  const call = 'clock\n{"hour":7}';
  const wrong = 'clock\n{"hour":24}';

  it('that may call answers, or calls by the schema, behind what it says of it', () =>
    expectTexts(
      held(undefined),
      ['all\nNo.', call, `${call}>>>${call}`, `all\nI look.>>>${call}`],
      ['No.', wrong, `>>>${call}`, `all\nI look.>>>${wrong}`, `${call}>>>all\nNo.`],
    ));

  it('that must call does nothing else', () =>
    expectTexts(held(REQUIRED), [call, `${call}>>>${call}`], ['all\nNo.', wrong, `all\nI look.>>>${call}`]));
});

describe('calls that cannot be demanded are refused by name', () => {
  const refusal = (constraint: GivenConstraint, ends: readonly string[] = []) => {
    try {
      return grammarOf(constraint, { special: [], ends });
    } catch (error) {
      const { reason, message, metadata } = error as RocmForgeError;
      return { reason, message, ...metadata };
    }
  };

  it.each([
    [{ type: 'objekt' }, 'CONSTRAINT_INVALID', '/type'],
    [
      { properties: { list: { type: 'array', uniqueItems: true } } },
      'CONSTRAINT_UNSUPPORTED',
      '/properties/list/uniqueItems',
    ],
    [{ type: 'string' }, 'CONSTRAINT_INVALID', ''],
  ])('parameters %j', (parameters, reason, at) => {
    const found = refusal(demanded({ tools: [tool('odd', parameters)] }));
    expect(found).toMatchObject({ reason, at, field: 'chat.tools.parameters_json' });
    expect((found as { message: string }).message).toMatch(/^chat\.tools\.parameters_json/);
  });

  it('parameters that are too long together', () => {
    const long = { description: 'x'.repeat(CONSTRAINT_LIMITS.characters / 2) };
    const found = refusal(demanded({ tools: [tool('a', long), tool('b', long)] }));
    expect(found).toMatchObject({ reason: 'CONSTRAINT_UNSUPPORTED', keyword: 'characters' });
  });

  it('markup that ends the text', () => {
    expect(refusal(demanded(), ['</tool_call>'])).toMatchObject({
      reason: 'CONSTRAINT_UNSUPPORTED',
      field: 'chat.tools',
      keyword: '</tool_call>',
    });
  });
});
