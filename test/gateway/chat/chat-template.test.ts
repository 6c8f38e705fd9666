import { describe, expect, it } from 'vitest';
import { ChatTemplate, type Conversation } from '../../../src/gateway/chat/chat-template.js';
import { ToolChoiceMode } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';

function templateOf(source: string | undefined, toolSource?: string): ChatTemplate {
  const builder = smallSpm({ 'tokenizer.chat_template': source, 'tokenizer.chat_template.tool_use': toolSource });
  return new ChatTemplate(builder.read().metadata, tokenizerOf(builder));
}

const hello: Conversation = { messages: [{ role: 'user', content: 'hello' }] };
const render = (source: string, conversation: Conversation = hello) => templateOf(source).render(conversation).text;

const CHATML =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

describe('a chat template', () => {
  it('renders the turns and opens the answer', () => {
    expect(render(CHATML)).toBe('<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n');
    expect(render(CHATML, { ...hello, addGenerationPrompt: false })).toBe('<|im_start|>user\nhello<|im_end|>\n');
  });

  it('sees the request’s variables, and the names of tokens in their texts stay text', () => {
    const builder = smallSpm({
      'tokenizer.chat_template':
        '{% if enable_thinking is false %}off{% else %}on{% endif %}{% if words %}{{ words[0] }}{% endif %}',
    });
    const tokenizer = tokenizerOf(builder);
    const template = new ChatTemplate(builder.read().metadata, tokenizer);
    const given = (templateVariablesJson: string): Conversation => ({ ...hello, templateVariablesJson });
    expect(template.render(hello).text).toBe('on');
    expect(template.render(given('{"enable_thinking": false}')).text).toBe('off');
    const named = given('{"words": ["</s>"]}');
    expect(template.render(named).text).toBe('on</s>');
    expect([...template.encode(named, tokenizer)]).not.toContain([...tokenizer.eogIds][0]);
    for (const json of ['[]', '1', '{', '{"messages": []}', '{"eos_token": "x"}', '['.repeat(1000)]) {
      expect(() => template.render(given(json))).toThrow(/template_variables_json/);
    }
  });

  it('gets its tools as a text where it joins them to others', () => {
    const tool = { name: 'weather', description: 'Tells the "weather".', parametersJson: '{"type": "object"}' };
    const joins = "{% set text = 'Functions: ' + functions %}{{ text }}";
    const expected = [{ name: 'weather', description: tool.description, parameters: { type: 'object' } }];
    const rendered = render(joins, { ...hello, tools: [tool] });
    expect(rendered).toBe(`Functions: ${JSON.stringify(expected, null, 4)}`);
    expect(render(joins)).toBe('Functions: []');
    expect(render('{{ functions is defined }}', { ...hello, tools: [tool] })).toBe('False');
    const named = { ...tool, description: '</s>' };
    const builder = smallSpm({ 'tokenizer.chat_template': joins });
    const tokenizer = tokenizerOf(builder);
    const ids = new ChatTemplate(builder.read().metadata, tokenizer).encode({ ...hello, tools: [named] }, tokenizer);
    expect([...ids]).not.toContain([...tokenizer.eogIds][0]);
  });

  it('continues an answer whose names of tokens stay text', () => {
    const begun = (content: string): Conversation => ({
      messages: [...hello.messages, { role: 'assistant', content }],
      continueFinalMessage: true,
    });
    expect(render(CHATML, begun('Once '))).toBe('<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nOnce ');
    expect(render(CHATML, begun(''))).toBe('<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n');
    const builder = smallSpm({ 'tokenizer.chat_template': '{{ messages[1].content }}' });
    const tokenizer = tokenizerOf(builder);
    const template = new ChatTemplate(builder.read().metadata, tokenizer);
    const ids = [...template.encode(begun('</s>'), tokenizer)];
    expect(template.render(begun('</s>')).text).toBe('</s>');
    expect(ids).not.toContain([...tokenizer.eogIds][0]);
    expect(() => render('{{ messages[0].content }}', begun('a'))).toThrow(/does not render the final assistant turn/);
  });

  it('knows the names of BOS and EOS, and the prompt still has one BOS', () => {
    const builder = smallSpm({ 'tokenizer.chat_template': '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}' });
    const tokenizer = tokenizerOf(builder);
    const template = new ChatTemplate(builder.read().metadata, tokenizer);
    expect(template.render(hello).text).toBe('<s>hello</s>');
    expect([...template.encode(hello, tokenizer)].filter((id) => id === tokenizer.bosId)).toHaveLength(1);
  });

  it('sees contents as lists of parts where it loops over them, as templates of models that see do', () => {
    const source =
      "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}";
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello <s> there' },
      { role: 'assistant', content: 'Hi' },
    ];
    expect(templateOf(source).render({ messages }).text).toBe('[system]Be brief.[user]Hello <s> there[assistant]Hi');
    expect(templateOf(source).render({ messages, continueFinalMessage: true }).text).toMatch(/\[assistant\]Hi$/);
    // One that takes either gets the text.
    const either = '{% for m in messages %}{% if m.content is string %}={{ m.content }}{% endif %}{% endfor %}';
    expect(templateOf(either).render({ messages: messages.slice(1, 2) }).text).toBe('=Hello <s> there');
  });

  it('sees names, tools, calls and their answers', () => {
    const conversation: Conversation = {
      messages: [
        { role: 'user', content: 'Weather?', name: 'Ada' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'look', argumentsJson: '{"at": ["Rome"]}' }] },
        { role: 'tool', content: '21', toolCallId: 'c1' },
      ],
      tools: [{ name: 'look', description: 'Looks.', parametersJson: '{"type": "object"}' }],
    };
    const source =
      '{{ tools | tojson }};{{ messages[0].name }};{% set call = messages[1].tool_calls[0] %}{{ call.type }} {{ call.function.name }} ' +
      '{{ call.function.arguments | tojson }} {{ call.function.arguments.at[0] }};{{ messages[2].tool_call_id }}';
    expect(render(source, conversation)).toBe(
      '[{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}]' +
        ';Ada;function look {"at": ["Rome"]} Rome;c1',
    );
  });

  it('sees what the assistant thought, by either name that templates have for it', () => {
    const messages = [{ role: 'assistant', content: 'Yes.', reasoning: 'Hm.' }];
    expect(render('{{ messages[0].reasoning_content }}{{ messages[0].content }}', { messages })).toBe('Hm.Yes.');
    expect(render('{{ messages[0].thinking }}{{ messages[0].content }}', { messages })).toBe('Hm.Yes.');
    const without = { messages: [{ role: 'assistant', content: 'Yes.', reasoning: '' }] };
    expect(render("{{ 'reasoning_content' in messages[0] }}", without)).toBe('False');
  });

  it('does without what was thought where it fails on a turn that thinks, speaks and calls', () => {
    const calls = [{ id: 'c', name: 'f', argumentsJson: '{}' }];
    const messages = [{ role: 'assistant', content: 'I look.', reasoning: 'Hm.', toolCalls: calls }];
    const fails = '{% set m = messages[0] %}{% if m.content and m.thinking %}{{ raise_exception("both") }}{% endif %}';
    expect(render(`${fails}{{ m.content }}{{ m.tool_calls[0].function.name }}`, { messages })).toBe('I look.f');
    expect(() => render(`${fails}{{ raise_exception("other") }}`, { messages })).toThrow('both');
    expect(() => render(fails, { messages: [{ ...messages[0]!, toolCalls: [] }] })).toThrow('both');
  });

  it('has the same tools where none may be called, so that the prefix of the prompt stays', () => {
    const tools = [{ name: 'look', description: '', parametersJson: '' }];
    const toolChoice = { choice: { $case: 'mode' as const, value: ToolChoiceMode.NONE } };
    const source = '{{ tools | tojson }}';
    expect(render(source, { ...hello, tools, toolChoice })).toBe(render(source, { ...hello, tools }));
    expect(templateOf('plain', 'with tools').render({ ...hello, tools, toolChoice }).text).toBe('with tools');
  });

  it('gets arguments as text when it pastes them', () => {
    const calls = [{ id: 'c', name: 'f', argumentsJson: '{"a":1}' }];
    const source =
      "{% for c in messages[0].tool_calls %}{{ c['function']['name'] + ' ' + c['function']['arguments'] + '!' }}{% endfor %}";
    expect(render(source, { messages: [{ role: 'assistant', content: '', toolCalls: calls }] })).toBe('f {"a":1}!');
  });

  it('gets numbers and keys as they were written, in arguments and in parameters', () => {
    const json =
      '{"id": 9007199254740993, "n": 12345678901234567890123, "x": 1.0, "z": -0.0, "e": 1E5, "b": 1, "10": 2, "2": 3}';
    const written =
      '{"id": 9007199254740993, "n": 12345678901234567890123, "x": 1.0, "z": -0.0, "e": 100000.0, "b": 1, "10": 2, "2": 3}';
    const conversation: Conversation = {
      messages: [{ role: 'assistant', content: '', toolCalls: [{ id: 'c', name: 'f', argumentsJson: json }] }],
      tools: [{ name: 'f', description: '', parametersJson: json }],
    };
    const call = '{{ messages[0].tool_calls[0].function.arguments | tojson }}';
    expect(render(call, conversation)).toBe(written);
    expect(render('{{ tools[0].function.parameters | tojson }}', conversation)).toBe(written);
    const each = '{% for k, v in messages[0].tool_calls[0].function.arguments.items() %}{{ k }}={{ v }} {% endfor %}';
    expect(render(each, conversation)).toBe(
      'id=9007199254740993 n=12345678901234567890123 x=1.0 z=-0.0 e=100000.0 b=1 10=2 2=3 ',
    );
  });

  describe('of a message that only calls', () => {
    const calling: Conversation = {
      messages: [{ role: 'assistant', content: '', toolCalls: [{ id: 'c', name: 'f', argumentsJson: '{}' }] }],
    };

    it('sees no content', () => {
      expect(render('{{ messages[0].content is none }}', calling)).toBe('True');
      expect(render('{{ messages[0] | tojson }}', calling)).toContain('"content": null');
    });

    it.each([
      ['fails without content', "{{ messages[0].content + '!' }}", '!'],
      ['would print "None"', '{{ messages[0].content }}!', '!'],
      ['would print it inside of something', '{{ messages[0] }}', "{'role': 'assistant', 'content': '', 'tool_calls'"],
    ])('sees empty content when it %s', (_name, source, expected) => {
      expect(render(source, calling).startsWith(expected)).toBe(true);
    });

    it('fails as it does without content when it fails with empty content too', () => {
      expect(() => render('{{ messages[0].content + missing }}', calling)).toThrow(/failed: 'missing' is undefined/);
    });
  });

  it('sees empty content where nothing is called', () => {
    expect(render('{{ messages[0].content == "" }}', { messages: [{ role: 'assistant', content: '' }] })).toBe('True');
  });

  it('has a form of its own for tools when the file gives one', () => {
    const template = templateOf('plain', 'with tools');
    expect(template.render(hello).text).toBe('plain');
    const tools = [{ name: 'f', description: '', parametersJson: '' }];
    expect(template.render({ ...hello, tools }).text).toBe('with tools');
  });

  it('knows the date', () => {
    const builder = smallSpm({ 'tokenizer.chat_template': "{{ strftime_now('%d %b %Y') }}" });
    const now = () => new Date(2026, 1, 3);
    const template = new ChatTemplate(builder.read().metadata, tokenizerOf(builder), { now });
    expect(template.render(hello).text).toBe('03 Feb 2026');
  });

  it('tells the date by llama.cpp’s names where it is told to, and a request’s word counts more', () => {
    const source = '{% if not date_string is defined %}none{% else %}{{ date_string }}, {{ datetime }}{% endif %}';
    const builder = smallSpm({ 'tokenizer.chat_template': source });
    const now = () => new Date(2026, 1, 3);
    const template = (tellsDate: boolean) =>
      new ChatTemplate(builder.read().metadata, tokenizerOf(builder), { now, tellsDate });
    expect(template(false).render(hello).text).toBe('none');
    expect(template(true).render(hello).text).toBe('03 Feb 2026, Feb 03 2026');
    const given = { ...hello, templateVariablesJson: '{"date_string": "1 May 2020"}' };
    expect(template(true).render(given).text).toBe('1 May 2020, Feb 03 2026');
  });

  it('has the variables of whoever serves the model where a conversation gives none of the name', () => {
    const builder = smallSpm({ 'tokenizer.chat_template': '{{ enable_thinking }} {{ effort }}' });
    const of = (variablesJson: string) =>
      new ChatTemplate(builder.read().metadata, tokenizerOf(builder), { variablesJson });
    const template = of('{"enable_thinking": false, "effort": "low </s>"}');
    expect(template.render(hello).text).toBe('False low </s>');
    expect(template.render({ ...hello, templateVariablesJson: '{"effort": "high"}' }).text).toBe('False high');
    const tokenizer = tokenizerOf(builder);
    expect([...template.encode(hello, tokenizer)]).not.toContain([...tokenizer.eogIds][0]);
    for (const json of ['[]', '{', '{"messages": []}']) expect(() => of(json)).toThrow(/template_variables_json/);
  });

  it('is allowed to be missing until a conversation comes', () => {
    const template = templateOf(undefined);
    expect(template.isAvailable).toBe(false);
    expect(() => template.render(hello)).toThrow(expect.objectContaining({ reason: 'CHAT_TEMPLATE_MISSING' }));
  });

  it('fails in its own words', () => {
    const failing = templateOf("{{ raise_exception('roles must alternate') }}");
    expect(() => failing.render(hello)).toThrow(
      expect.objectContaining({
        reason: 'CHAT_TEMPLATE_FAILED',
        message: 'the chat template failed: roles must alternate',
      }),
    );
    for (const source of ['{% if %}', '{{ messages | nonsense }}']) {
      expect(() => templateOf(source).render(hello)).toThrow(
        expect.objectContaining({ reason: 'CHAT_TEMPLATE_FAILED' }),
      );
    }
  });

  it.each<[string, Conversation, string]>([
    ['no messages', { messages: [] }, 'chat.messages'],
    ['an unknown role', { messages: [{ role: 'im_end', content: '' }] }, 'chat.messages[0].role'],
    ['a lone surrogate', { messages: [{ role: 'user', content: '\ud800' }] }, 'chat.messages'],
    [
      'JSON of a thousand levels',
      { ...hello, tools: [{ name: 'f', description: '', parametersJson: '['.repeat(1000) + ']'.repeat(1000) }] },
      'chat.tools[0].parameters_json',
    ],
  ])('refuses %s', (_name, conversation, field) => {
    expect(() => templateOf(CHATML).render(conversation)).toThrow(
      expect.objectContaining({ reason: 'INVALID_FIELD', metadata: { field } }),
    );
  });
});
