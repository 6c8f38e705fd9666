import { AS_THEY_ARE, automatonExpression } from '../../lib/grammar/automaton-grammar.js';
import { Budget } from '../../lib/grammar/budget.js';
import {
  choice,
  type Expression,
  Grammar,
  type GrammarRules,
  optional,
  repeat,
  type Surroundings,
  sequence,
} from '../../lib/grammar/grammar.js';
import { objectsOfSchema } from '../../lib/grammar/json-schema/schema-grammar.js';
import { CONSTRAINT_LIMITS } from '../../lib/grammar/limits.js';
import { patternAutomaton } from '../../lib/grammar/pattern-automaton.js';
import { GrammarError } from '../../lib/grammar/refusal.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { ToolGrammar, ToolRule } from '../chat/answer/tool-grammar.js';
import { markupExpression } from './markup.js';
import { behindReasoning, type HeldReasoning } from './reasoning-grammar.js';
import type { SpecialTokenNames } from './special-token-names.js';
import { taggedArguments } from './tagged-arguments.js';

/** Calls that a turn must have, or may. */
export interface ForcedToolCalls {
  readonly calls: ToolGrammar;
  /** Markup that readers of the turn accept at the start of a call, and whether one may start the turn without any. */
  readonly openers: readonly string[];
  readonly isBare: boolean;
  /** Form of an answer that need not call, in a format whose answers are messages. */
  readonly messages?: AnswerMessages | undefined;
  /** Format of reasoning before calls; absent: the model does not reason. */
  readonly reasoning?: HeldReasoning | undefined;
}

/** Form of JSON strings in a grammar that has these calls. */
export const stringsOf = ({ calls }: ForcedToolCalls): Grammar['strings'] =>
  calls.argumentsForm === 'json' ? 'plain' : 'without-angles';

/** The messages of a turn that are no calls: an answer, or what is said in front of a call. */
export interface AnswerMessages {
  readonly answer: string;
  readonly preamble: { readonly begin: string; readonly end: string };
  /** Markup that no text of a message has in it. */
  readonly marks: readonly string[];
}

/** Schema of a function without parameters. */
const NO_PARAMETERS = '{"type": "object", "additionalProperties": false}';

/**
 * The grammar of a turn that calls: what the model thinks, where it does, and from one call to as many as the limits say, the
 * arguments of each, an object or values between tags, by its function's schema. Where no call must come, text stands in
 * front, or alone, in which nothing begins that would be read as a call. Markup that is a special token is that token, and nowhere else may one
 * come.
 *
 * @throws RocmForgeError `CONSTRAINT_INVALID` for parameters that are no JSON Schema, or where no call satisfies its own;
 *   `CONSTRAINT_UNSUPPORTED` for what no grammar of ours says exactly
 */
export function toolCallsGrammar(held: ForcedToolCalls, names: SpecialTokenNames): GrammarRules {
  const work = new Budget('json_schema');
  const grammar = new Grammar(work, stringsOf(held));
  const markup = (value: string) => markupExpression(value, names, TOOLS);
  const turn = callsOf(held, grammar, markup);
  const root = behind(held.calls.isRequired ? turn : saidOrCalled(turn, held, grammar, markup), held, names, grammar);
  Object.assign(work, { at: '', keyword: '' });
  const made = refusing(TOOLS, TOOLS, () => grammar.rulesFrom(root));
  if (made !== undefined) return made;
  const sentence = `${PARAMETERS}: no object satisfies them, so nothing can be called; loosen what contradicts`;
  throw new RocmForgeError('CONSTRAINT_INVALID', sentence, { field: PARAMETERS, at: '', keyword: '' });
}

/**
 * Surroundings of a constraint on the answer of a turn that may call instead: its reasoning, and then the calls, or `opener` and the
 * constrained answer. No text stands in front of the calls: the constraint would not allow it.
 *
 * @throws RocmForgeError as {@link toolCallsGrammar}
 */
export function callsOrAnswer(held: ForcedToolCalls, opener: string, names: SpecialTokenNames): Surroundings {
  return (constrained, grammar) => {
    const markup = (value: string) => markupExpression(value, names, TOOLS);
    const answer = grammar.add('answer', sequence(markup(opener), constrained));
    const { at, keyword } = grammar.work;
    const turn = callsOf(held, grammar, markup);
    Object.assign(grammar.work, { at, keyword });
    return behind(choice(turn, answer), held, names, grammar);
  };
}

function behind(
  turn: Expression,
  { reasoning }: ForcedToolCalls,
  names: SpecialTokenNames,
  grammar: Grammar,
): Expression {
  return reasoning === undefined ? turn : behindReasoning(turn, reasoning, names, grammar);
}

/** From one call to as many as the limits say. */
function callsOf({ calls }: ForcedToolCalls, grammar: Grammar, markup: (value: string) => Expression): Expression {
  refuseLength(calls.tools);
  const { argumentsForm: form } = calls;
  const call = grammar.add(
    'call',
    choice(
      ...calls.tools.map((tool) => {
        const schema = tool.parametersJson === '' ? NO_PARAMETERS : tool.parametersJson;
        const parameters = refusing(PARAMETERS, `${PARAMETERS} of "${tool.name}"`, () =>
          form === 'json' ? objectsOfSchema(schema, grammar) : taggedArguments(schema, form, grammar, markup),
        );
        return sequence(markup(tool.prefix), parameters, markup(tool.suffix));
      }),
    ),
  );
  const more = repeat(sequence(markup(calls.separator), call), 0, calls.isRepeated ? CONSTRAINT_LIMITS.calls - 1 : 0);
  return grammar.add('calls', sequence(markup(calls.prefix), call, more, markup(calls.suffix)));
}

const TOOLS = 'chat.tools';
const PARAMETERS = 'chat.tools.parameters_json';

/** A schema's refusals speak of a constraint; here it is part of something else. */
function refusing<T>(field: string, what: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const message = error.message.replace(/^constraint\.\w+/, what);
    throw new RocmForgeError(error.reason, message, { ...error.metadata, field });
  }
}

function refuseLength(tools: readonly ToolRule[]): void {
  const length = tools.reduce((sum, { parametersJson }) => sum + parametersJson.length, 0);
  if (length <= CONSTRAINT_LIMITS.characters) return;
  const sentence = `${PARAMETERS} have ${length} characters together, ${CONSTRAINT_LIMITS.characters} are the most where calls must match their schemas; offer fewer tools`;
  throw new RocmForgeError('CONSTRAINT_UNSUPPORTED', sentence, { field: PARAMETERS, at: '', keyword: 'characters' });
}

function saidOrCalled(
  turn: Expression,
  held: ForcedToolCalls,
  grammar: Grammar,
  markup: (value: string) => Expression,
): Expression {
  if (held.messages === undefined) return behindText(turn, held, grammar);
  const { answer, preamble, marks } = held.messages;
  const free = textWithout(marks.map(escaped).join('|'), grammar);
  const called = sequence(optional(sequence(markup(preamble.begin), free, markup(preamble.end))), turn);
  return choice(called, sequence(markup(answer), free));
}

/** Any text without the beginning of a call, and calls behind it; where they have no beginning, one or the other. */
function behindText(turn: Expression, { openers, isBare }: ForcedToolCalls, grammar: Grammar): Expression {
  const bare = isBare ? ['^\\s*\\{'] : [];
  const free = textWithout([...openers.map(escaped), ...bare].join('|'), grammar);
  return isBare ? choice(turn, free) : sequence(free, optional(turn));
}

/** A text as a pattern of itself. */
function escaped(text: string): string {
  return text.replaceAll(/[[\]{}()|<>/^$.*+?\\]/g, (mark) => `\\u{${mark.charCodeAt(0).toString(16)}}`);
}

/** Any text in which nothing matches a pattern. */
function textWithout(pattern: string, grammar: Grammar): Expression {
  const begins = patternAutomaton(pattern, 'search', grammar.automata);
  return automatonExpression(grammar.automata.not(begins), AS_THEY_ARE, grammar);
}
