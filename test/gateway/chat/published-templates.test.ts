import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChatTemplate, type Conversation } from '../../../src/gateway/chat/chat-template.js';
import { hasJinja, NOW, type Rendered, renderWithJinja } from '../../lib/jinja/jinja-oracle.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { CONVERSATIONS } from './conversations.js';

const folder = process.env.ROCMFORGE_CHAT_TEMPLATES ?? '';
const missing = [
  ...(existsSync(folder)
    ? []
    : ['ROCMFORGE_CHAT_TEMPLATES names no folder with *.jinja (models/templates of llama.cpp)']),
  ...(hasJinja ? [] : ['python3 has no jinja2']),
];
if (missing.length > 0) console.log(`published chat templates skipped: ${missing.join('; ')}`);

const names =
  missing.length > 0
    ? []
    : readdirSync(folder)
        .filter((name) => name.endsWith('.jinja'))
        .sort();

const tokenizer = tokenizerOf(smallSpm());

function templateOf(source: string): ChatTemplate {
  const { metadata } = smallSpm({ 'tokenizer.chat_template': source }).read();
  return new ChatTemplate(metadata, tokenizer, { now: () => new Date(NOW) });
}

function renderHere(template: ChatTemplate, conversation: Conversation): Rendered {
  try {
    return { text: template.render(conversation).text };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

/**
 * The variables of a conversation as an OpenAI client would write them, apart from how `src` makes them.
 *
 * @param absentContent JSON of the content of a message that only calls
 * @param asText        whether the arguments of calls are their JSON as text
 * @param asParts       whether a content is a list of parts
 */
function variablesOf(
  { messages, tools, addGenerationPrompt = true }: Conversation,
  absentContent: 'null' | '""',
  asText: boolean,
  asParts: boolean,
): string {
  const json = (value: unknown) => JSON.stringify(value);
  const contentOf = (content: string) => json(asParts ? [{ type: 'text', text: content }] : content);
  const callOf = ({ id, name, argumentsJson }: NonNullable<Conversation['messages'][0]['toolCalls']>[0]) =>
    `{"type": "function", "id": ${json(id)}, "function": {"name": ${json(name)}, "arguments": ${asText ? json(argumentsJson) : argumentsJson}}}`;
  const messageOf = ({ role, content, name, toolCallId, toolCalls = [] }: Conversation['messages'][0]) =>
    `{${[
      `"role": ${json(role)}`,
      `"content": ${content === '' && toolCalls.length > 0 && absentContent === 'null' ? 'null' : contentOf(content)}`,
      ...(name === undefined ? [] : [`"name": ${json(name)}`]),
      ...(toolCallId === undefined ? [] : [`"tool_call_id": ${json(toolCallId)}`]),
      ...(toolCalls.length === 0 ? [] : [`"tool_calls": [${toolCalls.map(callOf).join(', ')}]`]),
    ].join(', ')}}`;
  const toolOf = ({ name, description, parametersJson }: NonNullable<Conversation['tools']>[0]) =>
    `{"type": "function", "function": {"name": ${json(name)}, "description": ${json(description)}, "parameters": ${parametersJson || '{"type": "object", "properties": {}}'}}}`;
  return `{${[
    '"bos_token": "<s>", "eos_token": "</s>", "documents": null',
    `"messages": [${messages.map(messageOf).join(', ')}]`,
    `"tools": ${tools === undefined ? 'null' : `[${tools.map(toolOf).join(', ')}]`}`,
    `"add_generation_prompt": ${addGenerationPrompt}`,
  ].join(', ')}}`;
}

/** Arguments of these conversations as Python prints a dict, and as they were sent. */
const PRINTED_DICT = /\{'(place|days)': /;
const KINDS_OF_CALLS = ['call with content', 'tool result'];
const AS_SENT = '{"place": "Rome"}';

const SHORT_TEXT = 'A short question';
const SHORT: Conversation = { messages: [{ role: 'user', content: SHORT_TEXT }] };

const isRefusedForDrop = (here: Rendered) =>
  'error' in here && here.error.includes('the chat template drops such a turn');
const dropsSystem = ({ messages }: Conversation, text: string) =>
  messages.some(({ role, content }) => role === 'system' && !text.includes(content.trim()));

function isUsable(withNone: Rendered, withEmpty: Rendered): boolean {
  if ('error' in withNone || 'error' in withEmpty) return 'text' in withNone;
  const nones = (text: string) => text.split('None').length;
  return nones(withNone.text) <= nones(withEmpty.text);
}

describe.skipIf(missing.length > 0)('templates of published models', () => {
  it('render every kind of conversation as Jinja does', () => {
    const cases = names.flatMap((name) => {
      const source = readFileSync(join(folder, name), 'utf8');
      const template = templateOf(source);
      return Object.entries(CONVERSATIONS).map(([kind, conversation]) => ({
        name,
        kind,
        label: `${name}, ${kind}`,
        source,
        template,
        conversation,
      }));
    });
    // Parts for a template that shows a user's text in them alone.
    const askPlain = (asParts: boolean) =>
      renderWithJinja(cases.map((c) => ({ ...c, variables: variablesOf(SHORT, '""', false, asParts) })));
    const shows = (rendered: Rendered) => 'text' in rendered && rendered.text.includes(SHORT_TEXT);
    const [plain, inParts] = [askPlain(false), askPlain(true)];
    const wantsParts = cases.map((_, i) => !shows(plain[i]!) && shows(inParts[i]!));
    const askJinja = (absentContent: 'null' | '""', asText: boolean) =>
      renderWithJinja(
        cases.map((c, i) => ({
          ...c,
          variables: variablesOf(c.conversation, absentContent, asText, wantsParts[i]!),
        })),
      );
    const ask = (asText: boolean) => {
      const [withNone, withEmpty] = [askJinja('null', asText), askJinja('""', asText)];
      // Content beside calls is none for a template that can take it: Jinja neither fails on it nor prints "None".
      return withNone.map((none, i) => (isUsable(none, withEmpty[i]!) ? none : withEmpty[i]!));
    };
    const [objects, texts] = [ask(false), ask(true)];
    // Arguments are an object for a template that can take one: Jinja neither fails on it, drops it nor prints a dict of Python's.
    const isText = (i: number) => {
      const [asObject, asText] = [objects[i]!, texts[i]!];
      if (!('text' in asText)) return false;
      if ('error' in asObject) return true;
      const isLost = asText.text.includes(AS_SENT) && !asObject.text.includes(AS_SENT);
      return isLost && (PRINTED_DICT.test(asObject.text) || !asObject.text.includes('Rome'));
    };
    const wantsText = (name: string) =>
      cases.some((c, i) => c.name === name && KINDS_OF_CALLS.includes(c.kind) && isText(i));
    const namesOfText = new Set(names.filter(wantsText));
    const expected = cases.map(({ name }, i) => (namesOfText.has(name) ? texts[i]! : objects[i]!));
    const differences = cases.flatMap(({ label, template, conversation }, i) => {
      const here = renderHere(template, conversation);
      const there = expected[i]!;
      if ('text' in here ? 'text' in there && here.text === there.text : 'error' in there) return [];
      if (isRefusedForDrop(here) && 'text' in there && dropsSystem(conversation, there.text)) return [];
      return [{ label, here, there }];
    });
    console.log(
      `chat templates: ${cases.length - differences.length} of ${cases.length} renderings equal Jinja's (${names.length} templates)`,
    );
    expect(differences).toEqual([]);
  });
});
