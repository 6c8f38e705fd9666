import { isJsonObject, jsonText } from '../../../lib/json/exact-json.js';
import type { Fields } from './fields.js';

/** Efforts of OpenAI's and Anthropic's APIs. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
/** Those that ask for an answer without reasoning. */
const WITHOUT_REASONING: ReadonlySet<string> = new Set(['none', 'minimal']);

type Variables = Readonly<Record<string, unknown>>;

/** Names of the switch of reasoning in templates: Qwen 3, GLM and others, and DeepSeek and Granite. */
export const thinkingSwitch = (isOn: boolean): Variables => ({ enable_thinking: isOn, thinking: isOn });

/** An effort by its field. @throws RocmForgeError `INVALID_FIELD` for a word that no API has */
export function effortOf(fields: Fields, name: string): string | undefined {
  const effort = fields.string(name);
  if (effort !== undefined && !EFFORTS.includes(effort as (typeof EFFORTS)[number])) {
    fields.refuse(name, `must be one of ${EFFORTS.join(', ')}`);
  }
  return effort;
}

/** The variables of templates that an effort sets: a template takes those that it knows. */
export function effortVariables(effort: string | undefined): Variables {
  if (effort === undefined) return {};
  return { reasoning_effort: effort, ...thinkingSwitch(!WITHOUT_REASONING.has(effort)) };
}

/** JSON of the variables of a request for the template: those that it names itself come before those that follow from others. */
export function variablesJson(named: unknown, derived: Variables): string {
  const variables = { ...derived, ...(isJsonObject(named) ? named : {}) };
  return named === undefined && Object.keys(variables).length === 0 ? '' : jsonText(variables);
}
