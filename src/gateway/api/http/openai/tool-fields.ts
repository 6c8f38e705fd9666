import { jsonText } from '../../../../lib/json/exact-json.js';
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

/** A choice that is one of OpenAI's words. @throws RocmForgeError `INVALID_FIELD` */
export function modeOf(fields: Fields, name: string): ToolChoice {
  const mode = MODES.get(fields.any(name));
  if (mode === undefined) fields.refuse(name, 'is none of "none", "auto" and "required"');
  return { choice: { $case: 'mode', value: mode } };
}

/**
 * The functions that a request offers and its `tool_choice`: a word, the function that must be called, or those that may be,
 * which are offered alone then.
 *
 * @throws RocmForgeError `INVALID_FIELD`
 */
export function chosenTools(fields: Fields): { readonly tools: Tool[]; readonly toolChoice: ToolChoice | undefined } {
  const tools = toolsOf(fields);
  const given = fields.any('tool_choice');
  if (given === undefined) return { tools, toolChoice: undefined };
  if (typeof given === 'string') return { tools, toolChoice: modeOf(fields, 'tool_choice') };
  const named = fields.object('tool_choice') as Fields;
  const type = named.string('type');
  if (type === 'allowed_tools') {
    const allowed = named.object('allowed_tools') ?? named.refuse('allowed_tools', 'is missing');
    const names = (allowed.objects('tools') ?? []).map(functionName);
    const toolChoice = modeOf(allowed, 'mode');
    allowed.end();
    named.end();
    // Tools that are left out change the indices of the others.
    fields.standsFor('chat.tools', 'tools');
    return { tools: tools.filter(({ name }) => names.includes(name)), toolChoice };
  }
  const value = functionName(named);
  return { tools, toolChoice: { choice: { $case: 'function', value } } };
}

/** The name in an object that names a function. */
function functionName(named: Fields): string {
  if ((named.string('type') ?? 'function') !== 'function')
    named.refuse('type', 'must be "function" or "allowed_tools"');
  const called = named.object('function') ?? named.refuse('function', 'is missing');
  const name = called.string('name') ?? called.refuse('name', 'is missing');
  called.end();
  named.end();
  return name;
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
    strictIfSupported: false,
  };
  called.end();
  fields.ignore('cache_control');
  fields.end();
  return tool;
}
