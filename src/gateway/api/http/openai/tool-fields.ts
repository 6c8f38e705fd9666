import { jsonText } from '../../../../shared/exact-json.js';
import { type Tool, type ToolChoice, ToolChoiceMode } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from '../fields.js';

/** The functions that a request offers, as OpenAI writes them. @throws RocmForgeError `INVALID_FIELD`, naming the field */
export function toolsOf(fields: Fields): Tool[] {
  return (fields.objects('tools') ?? []).map(toolOf);
}

const MODES: ReadonlyMap<unknown, ToolChoiceMode> = new Map([
  ['none', ToolChoiceMode.NONE],
  ['auto', ToolChoiceMode.AUTO],
  ['required', ToolChoiceMode.REQUIRED],
]);

/** OpenAI's `tool_choice`: a word, or the function that must be called. @throws RocmForgeError `INVALID_FIELD` */
export function toolChoiceOf(fields: Fields): ToolChoice | undefined {
  const given = fields.any('tool_choice');
  if (given === undefined) return undefined;
  const mode = MODES.get(given);
  if (mode !== undefined) return { choice: { $case: 'mode', value: mode } };
  if (typeof given === 'string') fields.refuse('tool_choice', 'is none of "none", "auto" and "required"');
  const named = fields.object('tool_choice');
  named?.mustBe('type', 'function');
  const called = named?.object('function') ?? named?.refuse('function', 'is missing');
  const value = called?.string('name') ?? called?.refuse('name', 'is missing');
  called?.end();
  named?.end();
  return { choice: { $case: 'function', value: value ?? '' } };
}

function toolOf(fields: Fields): Tool {
  fields.mustBe('type', 'function');
  const called = fields.object('function') ?? fields.refuse('function', 'is missing');
  const parameters = called.any('parameters');
  const tool = {
    name: called.string('name') ?? called.refuse('name', 'is missing'),
    description: called.string('description') ?? '',
    parametersJson: parameters === undefined ? '' : jsonText(parameters),
    strict: called.boolean('strict') ?? false,
  };
  called.end();
  fields.ignore('cache_control');
  fields.end();
  return tool;
}
