import { describe, expect, it } from 'vitest';
import { TOOL_PARSERS, type ToolParser } from '../../../../src/gateway/chat/answer/answer-format.js';
import { type ArgumentsForm, toolGrammar } from '../../../../src/gateway/chat/answer/tool-grammar.js';
import { ToolChoiceMode } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { readTurn, TOOLS } from './turns.js';

/** Texts that a grammar's rule of each form derives for `{"place": "Rome"}`, and for `{}`. */
const ARGUMENTS: Readonly<Record<ArgumentsForm, readonly [string, string]>> = {
  json: ['{"place": "Rome"}', '{}'],
  glm: ['<arg_key>place</arg_key>\n<arg_value>Rome</arg_value>\n', ''],
  'qwen3-coder': ['<parameter=place>\nRome\n</parameter>\n', ''],
  'seed-oss': ['<parameter=place>Rome</parameter>\n', ''],
};

const FORMS: readonly (readonly [ToolParser, string])[] = [
  ...TOOL_PARSERS.map((format) => [format, '[ARGS]'] as const),
  ['mistral', 'the older list'],
  ['deepseek', '```json'],
];

const grammarOf = (format: ToolParser, template: string, parts: object = {}) =>
  toolGrammar(TOOLS, { format, template, toolChoice: undefined, isParallel: true, ...parts });

const chosen = (mode: ToolChoiceMode) => ({ toolChoice: { choice: { $case: 'mode' as const, value: mode } } });

describe('the calls that a grammar allows', () => {
  it.each(FORMS)('are those that the parser reads: %s, whose template has %j', (format, template) => {
    const grammar = grammarOf(format, template)!;
    const [weather, clock] = grammar.tools;
    const [some, none] = ARGUMENTS[grammar.argumentsForm];
    const calls = [`${weather?.prefix}${some}${weather?.suffix}`, `${clock?.prefix}${none}${clock?.suffix}`];
    const text = `${grammar.prefix}${calls.join(grammar.separator)}${grammar.suffix}`;
    expect(readTurn({ tools: format }, [text])).toEqual({
      calls: [
        { name: 'weather', args: '{"place": "Rome"}' },
        { name: 'clock', args: '{}' },
      ],
    });
  });

  it('have a rule of their own for each function’s arguments', () => {
    const { tools } = grammarOf('hermes', '')!;
    expect(tools.map(({ name, parametersJson }) => ({ name, parametersJson }))).toEqual(TOOLS);
    expect(new Set(tools.map(({ argumentsRule }) => argumentsRule)).size).toBe(TOOLS.length);
    for (const { argumentsRule } of tools) expect(argumentsRule).toMatch(/^[a-z0-9_]+$/);
  });

  it('are none where none may be called', () => {
    expect(grammarOf('hermes', '', chosen(ToolChoiceMode.NONE))).toBeUndefined();
    const options = { format: 'hermes' as const, template: '', toolChoice: undefined, isParallel: true };
    expect(toolGrammar([], options)).toBeUndefined();
  });

  it('are one of one function where it is demanded', () => {
    const grammar = grammarOf('hermes', '', { toolChoice: { choice: { $case: 'function', value: 'clock' } } });
    expect(grammar).toMatchObject({ isRequired: true, isRepeated: false, tools: [{ name: 'clock' }] });
  });

  it.each([
    [ToolChoiceMode.AUTO, false],
    [ToolChoiceMode.REQUIRED, true],
  ])('must come with mode %i: %s', (mode, isRequired) => {
    expect(grammarOf('glm', '', chosen(mode))).toMatchObject({ isRequired, isRepeated: true });
    expect(grammarOf('glm', '', { ...chosen(mode), isParallel: false })).toMatchObject({
      isRequired,
      isRepeated: false,
    });
  });
});
