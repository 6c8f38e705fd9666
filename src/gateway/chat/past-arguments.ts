import { parseJson } from '../../lib/jinja/json.js';
import { Dict, Sequence, type Value } from '../../lib/jinja/values.js';
import type { TemplateProbe } from './template-probe.js';

/**
 * The arguments of a call of an earlier turn, as the template takes them: an object, or its JSON as text. Conversations hold
 * what a model wrote, so arguments that are not an object are taken, too: of those that were cut all that is whole; of others
 * their text, as the member `arguments` where the template takes nothing but an object.
 */
export function argumentsFor(
  json: string,
  {
    takesArgumentsAsText,
    needsArgumentsAsObject,
  }: Pick<TemplateProbe, 'takesArgumentsAsText' | 'needsArgumentsAsObject'>,
): Value {
  if (takesArgumentsAsText) return json.trim() === '' ? '{}' : json;
  const object = objectOf(json);
  if (object !== undefined) return wellFormed(object);
  return needsArgumentsAsObject ? Dict.of([['arguments', json]]) : json;
}

function objectOf(json: string): Dict | undefined {
  if (json.trim() === '') return new Dict();
  const value = parsed(json);
  if (value instanceof Dict) return value;
  if (value === undefined) return beginningOf(json);
  // Some clients encode arguments twice.
  const inner = typeof value === 'string' ? parsed(value) : undefined;
  return inner instanceof Dict ? inner : undefined;
}

function parsed(json: string): Value | undefined {
  try {
    return parseJson(json);
  } catch {
    return undefined;
  }
}

/** Complete part of an object whose text was cut; undefined if the text is not the beginning of an object. */
function beginningOf(json: string): Dict | undefined {
  const closers: string[] = [];
  // Positions at which the text could have ended before its last member, and the brackets that would have closed it.
  let last: { readonly end: number; readonly closers: string } | undefined;
  let isString = false;
  for (let i = 0; i < json.length; i++) {
    const letter = json[i] as string;
    if (isString) {
      if (letter === '\\') i += 1;
      else if (letter === '"') isString = false;
    } else if (letter === '"') isString = true;
    else if (letter === '{' || letter === '[') closers.push(letter === '{' ? '}' : ']');
    else if (letter === '}' || letter === ']') closers.pop();
    const isBoundary = !isString && (letter === '{' || letter === '[' || letter === ',');
    if (isBoundary) last = { end: letter === ',' ? i : i + 1, closers: closers.toReversed().join('') };
  }
  const whole = isString ? `${withoutCutEscape(json)}"` : json;
  const attempts = [whole + closers.toReversed().join(''), last && json.slice(0, last.end) + last.closers];
  for (const attempt of attempts) {
    const value = attempt === undefined ? undefined : parsed(attempt);
    if (value instanceof Dict) return value;
  }
  return undefined;
}

/** Without an escape that the end of a string has cut. */
function withoutCutEscape(text: string): string {
  const cut = /\\(?:u[\da-fA-F]{0,3})?$/.exec(text);
  if (cut === null) return text;
  let backslashes = 0;
  while (text[cut.index - 1 - backslashes] === '\\') backslashes += 1;
  return backslashes % 2 === 0 ? text.slice(0, cut.index) : text;
}

/** Halves of surrogate pairs, which escapes of JSON can write and a prompt cannot hold, become U+FFFD. */
function wellFormed(value: Value): Value {
  if (typeof value === 'string') return value.replace(/\p{Surrogate}/gu, '\ufffd');
  if (value instanceof Sequence) return new Sequence(value.kind, value.items.map(wellFormed));
  if (!(value instanceof Dict)) return value;
  return Dict.of(value.entries().map(([key, item]) => [wellFormed(key), wellFormed(item)] as const));
}
