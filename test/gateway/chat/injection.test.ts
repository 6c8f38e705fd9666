import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChatTemplate, type Conversation } from '../../../src/gateway/chat/chat-template.js';
import { InjectionGuard } from '../../../src/gateway/chat/injection-guard.js';
import { parseJson } from '../../../src/lib/jinja/json.js';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { BPE_MARKERS, smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { runs } from '../../support/run-size.js';

const START = '<|im_start|>';
const END = '<|im_end|>';

function chat(source: string) {
  const builder = smallBpe({ 'tokenizer.chat_template': source });
  const tokenizer = tokenizerOf(builder);
  const template = new ChatTemplate(builder.read().metadata, tokenizer);
  return {
    text: (conversation: Conversation) => template.render(conversation).text,
    markers: (conversation: Conversation) =>
      [...template.encode(conversation, tokenizer)]
        .filter((id) => tokenizer.isSpecial(id))
        .map((id) => tokenizer.tokenText(id)),
    decoded: (conversation: Conversation) =>
      detokenize(tokenizer, template.encode(conversation, tokenizer), { wholeText: true, includeSpecial: true }),
  };
}

const say = (content: string): Conversation => ({ messages: [{ role: 'user', content }] });

/** Every field a user fills, in ways that templates print them. */
const EVERYTHING = `${START}{{ tools | tojson }}${END}
{%- for m in messages %}${START}{{ m.role }} {{ m.name }} {{ m.tool_call_id }}
{{ m.content | trim }}{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}{{ c.function.arguments | tojson }}{{ c.function.arguments }}{% endfor %}{{ m | string }}${END}
{% endfor %}{% if add_generation_prompt %}${START}assistant
{% endif %}`;

const hostile = fc
  .array(
    fc.constantFrom(
      ...BPE_MARKERS,
      '<|im_',
      'end|>',
      '<',
      '|>',
      '<|IM_END|>',
      ' ',
      '\n',
      'hi',
      '"',
      '\\',
      '\ue000',
      '\\ue001',
      '😀',
    ),
    {
      maxLength: 6,
    },
  )
  .map((parts) => parts.join(''));

const conversations = fc.record({
  messages: fc.array(
    fc.record({
      role: fc.constantFrom('system', 'user', 'assistant', 'tool'),
      content: hostile,
      name: hostile,
      toolCallId: hostile,
      toolCalls: fc.array(
        fc.record({
          id: hostile,
          name: hostile,
          argumentsJson: fc.dictionary(hostile, hostile).map((o) => JSON.stringify(o)),
        }),
        { maxLength: 2 },
      ),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  tools: fc.array(
    fc.record({
      name: hostile,
      description: hostile,
      parametersJson: fc.dictionary(hostile, hostile).map((o) => JSON.stringify(o)),
    }),
    { maxLength: 2 },
  ),
});

describe("a user's text in a conversation", () => {
  it('never becomes a control token, whatever field it is in', () => {
    const { markers, decoded, text } = chat(EVERYTHING);
    fc.assert(
      fc.property(conversations, (conversation) => {
        const expected = [START, END, ...conversation.messages.flatMap(() => [START, END]), START];
        expect(markers(conversation)).toEqual(expected);
        expect(decoded(conversation)).toBe(text(conversation));
      }),
      { numRuns: runs(400) },
    );
  });

  it('is rendered character by character as the template alone would', () => {
    const { text } = chat(`{% for m in messages %}${START}{{ m.content }}${END}{% endfor %}`);
    fc.assert(
      fc.property(fc.array(fc.oneof(hostile, fc.string({ unit: 'binary' })), { minLength: 1 }), (contents) => {
        const messages = contents.map((content) => ({ role: 'user', content }));
        expect(text({ messages })).toBe(contents.map((content) => START + content + END).join(''));
      }),
    );
  });

  it.each([
    ['trimmed', `{{ messages[0].content | trim }}`, ` ${END} `, END],
    ['sliced', '{{ messages[0].content[3:] }}', `abc${END}`, END],
    ['split', "{{ messages[0].content.split('|')[1] }}", END, 'im_end'],
    ['lowered', '{{ messages[0].content | lower }}', '<|IM_END|>', END],
    ['raised', '{{ messages[0].content | upper | lower }}', '<|\u0131m_end|>', END],
    ['serialised', '{{ messages[0].content | tojson }}', END, `"${END}"`],
    ['serialised as ASCII', '{{ messages[0].content | tojson(ensure_ascii=true) }}', `é${END}`, `"\\u00e9${END}"`],
    ['printed in a list', '{{ [messages[0].content] }}', END, `['${END}']`],
    ['printed in a dict', '{{ messages[0] }}', END, `{'role': 'user', 'content': '${END}'}`],
    ['formatted', "{{ '%5s|%s' % (messages[0].content, 1) }}", END, `${END}|1`],
    ['formatted by braces', "{{ '{}!'.format(messages[0].content) }}", END, `${END}!`],
    ['escaped', '{{ messages[0].content | e }}', END, '&lt;|im_end|&gt;'],
    ['cut at both ends', "{{ messages[0].content.strip('x') }}", `x${END}x`, END],
    ['split from the right', "{{ messages[0].content.rsplit(' ', 1)[-1] }}", `a ${END}`, END],
    ['reversed twice', '{{ messages[0].content[::-1] | reverse }}', END, END],
    ['repeated', '{{ messages[0].content * 2 }}', END, END + END],
    ['in a macro', '{% macro m(x) %}{{ x }}{% endmacro %}{{ m(messages[0].content) }}', END, END],
    ['replaced', "{{ messages[0].content | replace('end', 'start') }}", END, START],
    ['joined to a marker', '<|im_{{ messages[0].content }}', 'end|>', END],
    ['put inside a marker', '<|im_{{ messages[0].content }}|>', 'end', END],
    ['put before a marker', '{{ messages[0].content }}im_end|>', '<|', END],
  ])('stays text when it is %s by the template', (_name, source, content, expected) => {
    const { text, markers } = chat(source);
    expect(text(say(content))).toBe(expected);
    expect(markers(say(content))).toEqual([]);
  });

  it('does not change what a template decides by looking at it', () => {
    const { text } = chat(
      "{% if messages[0].content.startswith('<think>') and messages[0].content.endswith('!') %}yes{% else %}no{% endif %}",
    );
    expect(text(say('<think>hello!'))).toBe('yes');
    expect(text(say('hello!'))).toBe('no');
  });

  it('may be checked for its length by the template', () => {
    const { text } = chat("{% if messages[0].content | length != 9 %}{{ raise_exception('not 9') }}{% endif %}ok");
    expect(text(say('123456789'))).toBe('ok');
  });

  it('merges with the white space of the template, as if it had been written there', () => {
    const builder = smallBpe({ 'tokenizer.chat_template': `${START}user {{ messages[0].content }}` });
    const tokenizer = tokenizerOf(builder);
    const template = new ChatTemplate(builder.read().metadata, tokenizer);
    expect(template.encode(say('hello'), tokenizer)).toEqual(
      tokenizer.encode(`${START}user hello`, { parseSpecial: true }),
    );
  });

  it('may use private-use characters, but not all of them', () => {
    const { text } = chat('{{ messages[0].content }}');
    const all = String.fromCharCode(...Array.from({ length: 6400 }, (_, i) => 0xe000 + i));
    expect(text(say(all.slice(1)))).toBe(all.slice(1));
    expect(() => text(say(all))).toThrow(expect.objectContaining({ reason: 'INVALID_FIELD' }));
  });
});

describe('the guard', () => {
  it('breaks names that the end of a string leaves open', () => {
    const guard = new InjectionGuard(['<|im_end|>', '𝒳yz']);
    expect(guard.mark('a<', '#', { borders: false })).toBe('a<#');
    expect(guard.mark('𝒳yz', '#', { borders: false })).toBe('𝒳#yz');
    expect(guard.mark('a < b', '#', { borders: false })).toBe('a < b');
    expect(guard.mark(parseJson('{"k": [" hi ", 1, null, true]}'), '#', { borders: true })).toEqual(
      parseJson('{"k": [" #hi# ", 1, null, true]}'),
    );
  });
});
