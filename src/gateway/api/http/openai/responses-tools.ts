import { jsonText } from '../../../../lib/json/exact-json.js';
import type { Tool, ToolChoice } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from '../fields.js';
import { CUSTOM_INPUT } from './responses-form.js';
import { modeOf } from './tool-fields.js';

/** Tools that a request of the Responses API offers. */
export interface OfferedTools {
  readonly tools: readonly Tool[];
  readonly customTools: readonly string[];
  readonly toolChoice: ToolChoice | undefined;
}

/**
 * The tools of a request and its `tool_choice`. Tools that OpenAI's servers run are ignored and reported: nobody runs them here.
 *
 * @throws RocmForgeError `INVALID_FIELD`, naming the field
 */
export function responsesTools(fields: Fields): OfferedTools {
  const given = fields.objects('tools') ?? [];
  const customTools: string[] = [];
  const tools = given.flatMap((tool): readonly Tool[] => {
    const type = tool.string('type') ?? tool.refuse('type', 'is missing');
    if (type === 'function') return [functionOf(tool)];
    if (type !== 'custom') {
      tool.reportIgnored('type');
      return [];
    }
    const custom = customOf(tool);
    customTools.push(custom.name);
    return [custom];
  });
  const choice = fields.any('tool_choice');
  if (typeof choice === 'string' || choice === undefined) {
    return { tools, customTools, toolChoice: choice === undefined ? undefined : modeOf(fields, 'tool_choice') };
  }
  return { ...chosen(tools, fields.object('tool_choice') as Fields), customTools };
}

/** The tools that a choice leaves, and whether one of them must be called. */
function chosen(tools: readonly Tool[], choice: Fields): Pick<OfferedTools, 'tools' | 'toolChoice'> {
  const type = choice.string('type');
  if (type === 'function' || type === 'custom') {
    const value = choice.string('name') ?? choice.refuse('name', 'is missing');
    choice.end();
    return { tools, toolChoice: { choice: { $case: 'function', value } } };
  }
  if (type !== 'allowed_tools') return choice.refuse('type', 'must be "function", "custom" or "allowed_tools"');
  const mode = modeOf(choice, 'mode');
  const allowed = (choice.objects('tools') ?? []).map((tool) => {
    tool.ignore('type', 'server_label');
    const name = tool.string('name');
    tool.end();
    return name;
  });
  choice.end();
  return { tools: tools.filter(({ name }) => allowed.includes(name)), toolChoice: mode };
}

function functionOf(tool: Fields): Tool {
  const parameters = tool.any('parameters');
  const strict = tool.boolean('strict');
  const read = {
    name: tool.string('name') ?? tool.refuse('name', 'is missing'),
    description: tool.string('description') ?? '',
    parametersJson: parameters === undefined ? '' : jsonText(parameters),
    strict: strict ?? false,
    // The default of this API, unlike that of chat completions.
    strictIfSupported: strict === undefined,
  };
  tool.ignore('defer_loading');
  tool.end();
  return read;
}

/** A custom tool as a function of one text; a regular expression is a pattern of that, which calls are held to. */
function customOf(tool: Fields): Tool {
  const name = tool.string('name') ?? tool.refuse('name', 'is missing');
  const description = tool.string('description') ?? '';
  const format = tool.object('format');
  const type = format?.string('type') ?? 'text';
  if (type !== 'text' && type !== 'grammar') format?.refuse('type', 'must be "text" or "grammar"');
  const isGrammar = type === 'grammar';
  if (isGrammar && format?.string('syntax') !== 'regex') {
    format?.refuse('syntax', 'is not "regex"; other grammars of custom tools are not supported');
  }
  const definition = isGrammar ? format?.string('definition') : undefined;
  if (isGrammar && definition === undefined) format?.refuse('definition', 'is missing');
  format?.end();
  tool.ignore('defer_loading');
  tool.end();
  const input = { type: 'string', ...(definition !== undefined && { pattern: `^(?:${definition})$` }) };
  const parameters = {
    type: 'object',
    properties: { [CUSTOM_INPUT]: input },
    required: [CUSTOM_INPUT],
    additionalProperties: false,
  };
  return { name, description, parametersJson: JSON.stringify(parameters), strict: isGrammar, strictIfSupported: false };
}
