import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { answerFormatOf } from '../../../../src/gateway/chat/answer/answer-format.js';
import { responseStart } from '../../../../src/gateway/chat/answer/answer-parser.js';
import { type ChatMessage, ChatTemplate, type ChatToolCall } from '../../../../src/gateway/chat/chat-template.js';
import { smallSpm, tokenizerOf } from '../../../lib/tokenizer/vocabularies.js';
import { readTurn } from './turns.js';

const folder = process.env.ROCMFORGE_CHAT_TEMPLATES ?? '';
const isThere = existsSync(folder);
if (!isThere)
  console.log('calls of published templates skipped: ROCMFORGE_CHAT_TEMPLATES names no folder with *.jinja');

const templates = (isThere ? readdirSync(folder) : [])
  .filter((name) => name.endsWith('.jinja'))
  .map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const)
  .filter(([, source]) => answerFormatOf(source).tools !== undefined);

const tokenizer = tokenizerOf(smallSpm());
const user: ChatMessage = { role: 'user', content: 'The weather?' };
const ARGUMENTS = {
  place: 'Rome "x"\n  <b> \\ 東京 😀',
  days: 2,
  exact: true,
  tags: ['a', { b: '}' }],
  options: { c: [] },
};
const callOf = (name: string, value: object, i: number): ChatToolCall => ({
  id: `call${i}abcd`,
  name,
  argumentsJson: JSON.stringify(value),
});
/** Fails on any tools: it serialises a generator. */
const FAILING = ['llama-cpp-deepseek-r1.jinja'];

/** Writes the second call of a turn without the tag that begins it. */
const WITHOUT_SECOND_TAG = ['hf-NousResearch-Hermes-2-Pro-Llama-3-8B-JSON-Schema-.jinja'];

/** Types that every template can describe. */
const TYPES = { place: 'string', days: 'integer', exact: 'boolean', tags: 'array', options: 'object' };
const properties = Object.fromEntries(Object.entries(TYPES).map(([key, type]) => [key, { type }]));
const tools = ['weather', 'clock'].map((name) => ({
  name,
  description: 'Tells.',
  parametersJson: JSON.stringify({ type: 'object', properties, required: [] }),
}));
const weather = callOf('weather', ARGUMENTS, 0);
const clock = callOf('clock', {}, 1);

/** An assistant's turn as a template writes it behind its prompt; undefined if it takes no such turn. */
function turnOf(source: string, toolCalls: readonly ChatToolCall[]): { text: string; prompt: string } | undefined {
  const { metadata } = smallSpm({ 'tokenizer.chat_template': source }).read();
  const template = new ChatTemplate(metadata, tokenizer, { tellsDate: true });
  const render = (messages: readonly ChatMessage[], addGenerationPrompt: boolean) =>
    template.render({ messages, tools, addGenerationPrompt }).text;
  let prompt: string;
  let whole: string;
  try {
    prompt = render([user], true);
    whole = render([user, { role: 'assistant', content: '', toolCalls }], false);
  } catch {
    return undefined;
  }
  // Past turns may be without the reasoning that the prompt begins.
  const reasonings = ['<think>', '<|channel>thought'].map((begin) => prompt.slice(0, prompt.lastIndexOf(begin)));
  const begun = [prompt, ...reasonings].find((text) => whole.startsWith(text));
  if (begun === undefined)
    throw new Error(`the turn does not go on with its prompt: ${JSON.stringify([prompt, whole])}`);
  return { text: whole.slice(begun.length), prompt: begun };
}

describe.skipIf(!isThere)('a call as a published template writes it is read as the call that it was', () => {
  it.each(templates)('%s', (name, source) => {
    const format = answerFormatOf(source);
    const turns = [[weather], [clock], [weather, clock]].map((calls) => ({ calls, turn: turnOf(source, calls) }));
    expect(turns[0]?.turn === undefined, 'one call can be written').toBe(FAILING.includes(name));
    for (const { calls, turn } of turns) {
      if (turn === undefined) continue;
      const read = readTurn(format, [turn.text], { tools, start: responseStart(format, turn.prompt) });
      const all = (read.calls ?? []).map(({ name, args, isCut }) => [name, JSON.parse(args), isCut]);
      // gpt-oss has one call a turn: its template leaves out the others.
      const readable = WITHOUT_SECOND_TAG.includes(name) ? calls.slice(0, 1) : calls;
      const written = readable.filter(({ name }) => turn.text.includes(name));
      expect(all, turn.text).toEqual(
        written.map(({ name, argumentsJson }) => [name, JSON.parse(argumentsJson), undefined]),
      );
    }
  });
});
