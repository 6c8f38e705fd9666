import { jsonText } from '../../../../lib/json/exact-json.js';
import {
  type ChatInput,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from '../fields.js';
import { endBlock } from './messages-turns.js';

/** Tools that Anthropic's servers run, by the beginnings of their types: nobody runs them here, and no request depends on them. */
const SERVER_TOOLS = /^(web_search|web_fetch|code_execution|tool_search|memory|mcp_toolset|advisor)(_|$)/;

/** The functions that a request offers, and which of them may or must be called. @throws RocmForgeError `INVALID_FIELD` */
export function toolsOf(fields: Fields): Pick<ChatInput, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  const tools = (fields.objects('tools') ?? []).filter((tool) => {
    const isServers = SERVER_TOOLS.test(tool.string('type') ?? '');
    if (isServers) tool.reportIgnored('type');
    return !isServers;
  });
  return { tools: tools.map(toolOf), ...choiceOf(fields) };
}

function toolOf(tool: Fields): Tool {
  const type = tool.string('type') ?? 'custom';
  if (type !== 'custom') tool.refuse('type', `is ${JSON.stringify(type)}; only custom tools are supported`);
  // Hints for servers that load tools later or stream their input.
  tool.ignore('eager_input_streaming', 'defer_loading', 'input_examples', 'allowed_callers');
  const schema = tool.any('input_schema') ?? tool.refuse('input_schema', 'is missing');
  const read = {
    name: tool.string('name') ?? tool.refuse('name', 'is missing'),
    description: tool.string('description') ?? '',
    parametersJson: jsonText(schema),
    strict: tool.boolean('strict') ?? false,
    strictIfSupported: false,
  };
  endBlock(tool);
  return read;
}

const MODES: Readonly<Record<string, ToolChoiceMode>> = {
  auto: ToolChoiceMode.AUTO,
  any: ToolChoiceMode.REQUIRED,
  none: ToolChoiceMode.NONE,
};

function choiceOf(fields: Fields): Pick<ChatInput, 'toolChoice' | 'parallelToolCalls'> {
  const choice = fields.object('tool_choice');
  if (choice === undefined) return { toolChoice: undefined, parallelToolCalls: undefined };
  const type = choice.string('type') ?? choice.refuse('type', 'is missing');
  const isAlone = choice.boolean('disable_parallel_tool_use');
  const parallelToolCalls = isAlone === undefined ? undefined : !isAlone;
  const chosen = (): ToolChoice['choice'] => {
    if (type === 'tool')
      return { $case: 'function', value: choice.string('name') ?? choice.refuse('name', 'is missing') };
    const value = Object.hasOwn(MODES, type) ? MODES[type] : undefined;
    return value === undefined
      ? choice.refuse('type', 'is none of "auto", "any", "tool" and "none"')
      : { $case: 'mode', value };
  };
  const toolChoice = { choice: chosen() };
  choice.end();
  return { toolChoice, parallelToolCalls };
}
