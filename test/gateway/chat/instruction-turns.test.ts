import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChatMessage, ChatTemplate } from '../../../src/gateway/chat/chat-template.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { runs, seed } from '../../support/run-size.js';

function templateOf(source: string): ChatTemplate {
  const builder = smallSpm({ 'tokenizer.chat_template': source });
  return new ChatTemplate(builder.read().metadata, tokenizerOf(builder));
}

const turn = (role: string, content: string): ChatMessage => ({ role, content });
const user = turn('user', 'question');

/** Templates by what they do with turns of instructions. */
const SHOWS_ANY_ROLE = '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}';
const KNOWS_SYSTEM =
  "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}";
const FIRST_SYSTEM_ALONE =
  "{% if messages[0].role == 'system' %}[system]{{ messages[0].content | trim }}{% endif %}" +
  "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}";
const KNOWS_DEVELOPER =
  "{% for m in messages %}{% if m.role == 'developer' %}[rules]{{ m.content }}{% elif m.role == 'system' %}[identity]{{ m.content }}" +
  "{% elif m.role in ['user', 'assistant'] %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}";
const DROPS_SYSTEM =
  "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}";
const REFUSES_SYSTEM = `{% if messages[0].role == 'system' %}{{ raise_exception('no system turns') }}{% endif %}${DROPS_SYSTEM}`;
const REFUSES_LATER_SYSTEM =
  "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system comes first') }}{% endif %}" +
  '[{{ m.role }}]{{ m.content }}{% endfor %}';
const SHOWS_SYSTEM_WITH_TOOLS =
  '{% if tools %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% else %}' +
  `${DROPS_SYSTEM}{% endif %}`;

const TEMPLATES = {
  SHOWS_ANY_ROLE,
  KNOWS_SYSTEM,
  FIRST_SYSTEM_ALONE,
  KNOWS_DEVELOPER,
  DROPS_SYSTEM,
  REFUSES_SYSTEM,
  REFUSES_LATER_SYSTEM,
};

describe('turns of instructions', () => {
  it.each<[string, string, readonly ChatMessage[], string]>([
    ['developer as system', SHOWS_ANY_ROLE, [turn('developer', 'A'), user], '[system]A[user]question'],
    ['developer as system', KNOWS_SYSTEM, [turn('developer', 'A'), user], '[system]A[user]question'],
    ['developer as system', FIRST_SYSTEM_ALONE, [turn('developer', 'A'), user], '[system]A[user]question'],
    ['developer as itself', KNOWS_DEVELOPER, [turn('developer', 'A'), user], '[rules]A[user]question'],
    [
      'both as themselves',
      KNOWS_DEVELOPER,
      [turn('system', 'A'), turn('developer', 'B'), user],
      '[identity]A[rules]B[user]question',
    ],
    [
      'two system turns',
      KNOWS_SYSTEM,
      [turn('system', 'A'), turn('system', 'B'), user],
      '[system]A[system]B[user]question',
    ],
    [
      'two system turns as one',
      FIRST_SYSTEM_ALONE,
      [turn('system', 'A'), turn('system', 'B'), user],
      '[system]A\n\nB[user]question',
    ],
    [
      'a developer turn behind a system turn',
      FIRST_SYSTEM_ALONE,
      [turn('system', 'A'), turn('developer', 'B'), user],
      '[system]A\n\nB[user]question',
    ],
    [
      'a later system turn in its place',
      KNOWS_SYSTEM,
      [user, turn('assistant', 'yes'), turn('system', 'A'), user],
      '[user]question[assistant]yes[system]A[user]question',
    ],
    [
      'a later system turn at the start',
      FIRST_SYSTEM_ALONE,
      [user, turn('assistant', 'yes'), turn('system', 'A'), user],
      '[system]A[user]question[assistant]yes[user]question',
    ],
    [
      'a later system turn at the start, where it fails elsewhere',
      REFUSES_LATER_SYSTEM,
      [turn('system', 'A'), user, turn('system', 'B')],
      '[system]A\n\nB[user]question',
    ],
    ['an empty one', FIRST_SYSTEM_ALONE, [turn('system', 'A'), turn('system', ' '), user], '[system]A[user]question'],
  ])('are rendered: %s', (_name, source, messages, prompt) => {
    expect(templateOf(source).render({ messages }).text).toBe(prompt);
  });

  it('are refused by name where the template drops them', () => {
    for (const messages of [
      [turn('system', 'A'), user],
      [turn('developer', 'A'), user],
      [user, turn('system', 'A')],
    ]) {
      const index = messages.findIndex(({ role }) => role !== 'user');
      expect(() => templateOf(DROPS_SYSTEM).render({ messages })).toThrow(
        expect.objectContaining({ reason: 'INVALID_FIELD', metadata: { field: `chat.messages[${index}].role` } }),
      );
    }
  });

  it('are refused in the words of a template that refuses them', () => {
    expect(() => templateOf(REFUSES_SYSTEM).render({ messages: [turn('developer', 'A'), user] })).toThrow(
      'no system turns',
    );
  });

  it('depend on tools where the template does', () => {
    const tools = [{ name: 'f', description: '', parametersJson: '' }];
    const template = templateOf(SHOWS_SYSTEM_WITH_TOOLS);
    const messages = [turn('developer', 'A'), user];
    expect(template.render({ messages, tools }).text).toBe('[system]A[user]question');
    expect(() => template.render({ messages })).toThrow(/drops such a turn/);
  });

  it('are in the prompt, each and in order, or refused, whatever the conversation', () => {
    const roles = fc.array(fc.constantFrom('system', 'developer', 'user', 'assistant'), { minLength: 1, maxLength: 8 });
    const compiled = Object.values(TEMPLATES).map(templateOf);
    let rendered = 0;
    fc.assert(
      fc.property(roles, fc.constantFrom(...compiled), (chosen, template) => {
        const messages = chosen.map((role, i) => turn(role, `<${i}>`));
        let text: string;
        try {
          text = template.render({ messages }).text;
        } catch (error) {
          expect(['INVALID_FIELD', 'CHAT_TEMPLATE_FAILED']).toContain((error as { reason?: string }).reason);
          return;
        }
        rendered += 1;
        const instructions = messages.filter(({ role }) => role === 'system' || role === 'developer');
        const places = instructions.map(({ content }) => text.indexOf(content));
        expect(places).not.toContain(-1);
        expect(places).toEqual(places.toSorted((a, b) => a - b));
      }),
      { numRuns: runs(500), seed: seed(41) },
    );
    expect(rendered).toBeGreaterThan(runs(500) / 4);
  });
});
