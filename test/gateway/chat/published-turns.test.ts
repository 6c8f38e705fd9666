import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ChatMessage, ChatTemplate, type ChatTool } from '../../../src/gateway/chat/chat-template.js';
import type { RocmForgeError } from '../../../src/shared/errors.js';
import { hasJinja, NOW, type Rendered, renderWithJinja } from '../../lib/jinja/jinja-oracle.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';

const folder = process.env.ROCMFORGE_CHAT_TEMPLATES ?? '';
const isThere = existsSync(folder);
const tokenizer = tokenizerOf(smallSpm());
const names = isThere
  ? readdirSync(folder)
      .filter((name) => name.endsWith('.jinja'))
      .sort()
  : [];
const templates = names.map((name) => {
  const source = readFileSync(join(folder, name), 'utf8');
  const { metadata } = smallSpm({ 'tokenizer.chat_template': source }).read();
  return { name, source, template: new ChatTemplate(metadata, tokenizer, { now: () => new Date(NOW) }) };
});

const turn = (role: string, content: string): ChatMessage => ({ role, content });
const user = turn('user', 'Capital?');
const yes = turn('assistant', 'Yes.');
const [first, second] = [turn('system', 'FIRST-RULE'), turn('system', 'SECOND-RULE')];
const developer = turn('developer', 'DEVELOPER-RULE');
const tools: readonly ChatTool[] = [{ name: 'look', description: 'Looks.', parametersJson: '{"type": "object"}' }];

describe.skipIf(!isThere)('templates of published models', () => {
  it('drop no developer or second system turn: it is in the prompt, or refused', () => {
    const conversations = [
      [developer, user],
      [first, developer, user],
      [developer, first, user],
      [first, second, user],
      [first, second, developer, user, yes, user],
      [first, user, yes, second, user],
      [user, yes, user, developer],
    ];
    const refusals = new Set<string>();
    const dropped: string[] = [];
    for (const { name, template } of templates) {
      for (const messages of conversations) {
        for (const offered of [[], tools]) {
          try {
            const { text } = template.render({ messages, tools: offered });
            const lost = messages.filter(({ content }) => content.endsWith('-RULE') && !text.includes(content));
            if (lost.length > 0) dropped.push(`${name}: ${messages.map(({ role }) => role)}`);
          } catch (error) {
            expect(['INVALID_FIELD', 'CHAT_TEMPLATE_FAILED']).toContain((error as RocmForgeError).reason);
            refusals.add(name);
          }
        }
      }
    }
    console.log(`instructions: ${names.length} templates, ${refusals.size} refuse some: ${[...refusals].join(', ')}`);
    expect(dropped).toEqual([]);
  });

  it.skipIf(!hasJinja)('continue a final turn as transformers does', () => {
    const contents = ['The capital is', 'The capital is ', 'Yes', '1. **Rome**\n2. **', '{"answer": '];
    const cases = templates.flatMap(({ name, source, template }) =>
      contents.flatMap((final) =>
        [[user], [first, user], [user, yes, user]].map((before) => ({ name, source, template, final, before })),
      ),
    );
    const ask = (asParts: boolean) =>
      renderWithJinja(
        cases.map(({ source, final, before }) => {
          const contentOf = (content: string) => (asParts ? [{ type: 'text', text: content }] : content);
          const turns = [...before, turn('assistant', final)];
          const messages = JSON.stringify(turns.map(({ role, content }) => ({ role, content: contentOf(content) })));
          const variables = `{"bos_token": "<s>", "eos_token": "</s>", "documents": null, "tools": null, "messages": ${messages}, "add_generation_prompt": false}`;
          return { source, final, variables };
        }),
      );
    // Parts for a template that shows a user's text in them alone.
    const inParts = ask(true);
    const shows = (rendered: Rendered) => 'text' in rendered && rendered.text.includes(user.content);
    const expected = ask(false).map((plain, i) => (!shows(plain) && shows(inParts[i]!) ? inParts[i]! : plain));
    const differing = new Map<string, unknown>();
    cases.forEach(({ name, template, final, before }, i) => {
      const messages = [...before, turn('assistant', final)];
      let here: Rendered;
      try {
        here = { text: template.render({ messages, continueFinalMessage: true }).text };
      } catch (error) {
        here = { error: (error as Error).message };
      }
      const there = expected[i]!;
      // A template that drops the instructions is not asked.
      const isDropped = before[0] === first && 'text' in there && !there.text.includes(first.content);
      const isRefused = 'error' in there || isDropped;
      const isEqual = 'text' in here ? 'text' in there && here.text === there.text : isRefused;
      if (!isEqual) differing.set(name, { final, before: before.map(({ role }) => role), here, there });
    });
    console.log(`prefill: ${names.length - differing.size} of ${names.length} templates equal transformers' rule`);
    expect([...differing]).toEqual([]);
  });
});
