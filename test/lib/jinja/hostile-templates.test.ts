import { describe, expect, it } from 'vitest';
import { ChatTemplate, type Conversation } from '../../../src/gateway/chat/chat-template.js';
import { TemplateError } from '../../../src/lib/jinja/errors.js';
import { Template } from '../../../src/lib/jinja/template.js';
import { Dict, list } from '../../../src/lib/jinja/values.js';
import { smallSpm, tokenizerOf } from '../tokenizer/vocabularies.js';

const tokenizer = tokenizerOf(smallSpm());
const hello: Conversation = { messages: [{ role: 'user', content: 'hello' }] };

function render(source: string, conversation = hello): string {
  const { metadata } = smallSpm({ 'tokenizer.chat_template': source }).read();
  return new ChatTemplate(metadata, tokenizer).render(conversation).text;
}

/** The same within limits that are soon reached: the kinds of work are told apart by none of them being free. */
function renderBriefly(source: string): string {
  const messages = list([Dict.of([['content', 'hello']])]);
  const limits = { steps: 1_000_000, units: 4_000_000 };
  return new Template(source).render(new Map([['messages', messages]]), { limits, now: new Date(0) });
}

const nest = (open: string, middle: string, close: string, times: number) =>
  open.repeat(times) + middle + close.repeat(times);

describe('a template that would never end', () => {
  it.each<[string, string]>([
    ['loops 10^10 times', '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}'],
    ['has a body of many nodes', `{% for a in range(100000) %}${'{{ 1 + 1 }}'.repeat(1000)}{% endfor %}`],
    [
      'doubles a string 40 times',
      "{% set n = namespace(s='ab') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s | length }}",
    ],
    ['doubles a list', '{% set n = namespace(l=[1]) %}{% for i in range(40) %}{% set n.l = n.l + n.l %}{% endfor %}'],
    [
      'prints values that share their parts',
      '{% set n = namespace(l=[1]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}',
    ],
    [
      'serialises values that share their parts',
      '{% set n = namespace(l=[1]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l | tojson }}',
    ],
    [
      'compares values that share their parts',
      '{% set n = namespace(l=[1], m=[1]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, n.m] %}{% endfor %}{{ n.l == n.m }}',
    ],
    ['repeats a string', "{{ 'a' * 1000000000 }}"],
    ['repeats a list', '{{ [1] * 1000000000 }}'],
    ['raises to a power', '{{ 10 ** (10 ** 10) }}'],
    ['squares an int', '{% set n = namespace(i=10) %}{% for i in range(40) %}{% set n.i = n.i * n.i %}{% endfor %}'],
    ['centers in a wide line', "{{ 'a'.center(1000000000) }}"],
    ['fills with zeros', "{{ 'a'.zfill(1000000000) }}"],
    ['pads by a format', "{{ '%999999999d' % 1 }}"],
    ['formats with many decimals', "{{ '%.999999999f' % 1 }}"],
    ['indents far', "{{ 'a\nb' | indent(1000000000) }}"],
    ['indents JSON far', '{{ [[1]] | tojson(indent=1000000000) }}'],
    ['fills a batch', "{{ [1] | batch(1000000000, 'x') | list }}"],
    ['replaces by something long', "{% set a = 'a' * 100000 %}{{ a.replace('a', a) }}"],
    ['joins with something long', "{% set a = 'a' * 100000 %}{{ range(1000) | join(a) }}"],
    [
      'escapes again and again',
      "{% set n = namespace(s='&') %}{% for i in range(99999) %}{% set n.s = (n.s ~ '') | e %}{% endfor %}",
    ],
    [
      'searches where every place nearly matches',
      "{% set a = 'a' * 500000 %}{% for i in range(1000) %}{{ ('b' ~ a) in (a ~ a) }}{% endfor %}",
    ],
    ['takes a long range', '{{ range(1000000000) | list }}'],
    ['calls itself', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}'],
    ['calls itself in turns', '{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}'],
    ['loops into itself', '{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}'],
    ['nests brackets', `{{ ${nest('(', '1', ')', 100_000)} }}`],
    ['nests lists', `{{ ${nest('[', '1', ']', 100_000)} }}`],
    ['nests ifs', nest('{% if true %}', 'x', '{% endif %}', 100_000)],
    ['chains filters', `{{ 1${' | string'.repeat(100_000)} }}`],
    ['chains attributes', `{{ messages${'.x'.repeat(100_000)} }}`],
    ['chains signs', `{{ ${'-'.repeat(100_000)}1 }}`],
    ['chains nots', `{{ ${'not '.repeat(100_000)}1 }}`],
    ['is longer than any', `{#${'x'.repeat(1_000_001)}#}`],
    ['has a long number', `{{ ${'9'.repeat(10_000)} }}`],
  ])('fails when it %s', (_name, source) => {
    expect(() => renderBriefly(source)).toThrow(TemplateError);
  });

  it('tells how much was too much', () => {
    expect(() => render('{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}')).toThrow(
      /^the chat template failed: it takes more than \d+ steps for this conversation$/,
    );
  });
});

describe('a template that reaches for what is not its own', () => {
  it.each([
    ...['messages.constructor', 'messages[0].constructor', "messages[0]['__proto__']", "''.constructor.constructor"],
    ...['raise_exception.constructor', 'loop.constructor', "messages.map('x')", "messages[0].content['constructor']"],
    ...[
      'namespace().constructor',
      "namespace()['__proto__']",
      'range.call',
      'messages.items.push',
      'strftime_now.bind',
    ],
    ...["''.__class__", 'messages.__class__.__mro__', "''['__proto__']", 'this', 'globalThis', 'process', 'toString'],
  ])('finds nothing: %s', (expression) => {
    let text: string;
    try {
      text = render(`{{ ${expression} }}`);
    } catch (error) {
      expect(error).toMatchObject({ reason: 'CHAT_TEMPLATE_FAILED' });
      return;
    }
    expect(text).toBe('');
  });

  it('cannot change what the next conversation sees', () => {
    const { metadata } = smallSpm({
      'tokenizer.chat_template':
        '{{ range.seen }}{% set range = namespace(seen=1) %}{% set range.seen = 2 %}{{ range.seen }}',
    }).read();
    const template = new ChatTemplate(metadata, tokenizer);
    expect([template.render(hello).text, template.render(hello).text]).toEqual(['2', '2']);
  });
});

describe('a large conversation', () => {
  const source =
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<u>' + (m.content | trim) + '</u>' }}{% elif m.tool_calls is defined and m.tool_calls %}{{ m.tool_calls | tojson }}{% else %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}";

  it('of many messages is rendered', () => {
    const messages = Array.from({ length: 20_000 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: '' }));
    expect(render(source, { messages })).toBe('<u></u>'.repeat(10_000));
  });

  it('of one long message is rendered', () => {
    const content = 'x'.repeat(4_000_000);
    expect(render(source, { messages: [{ role: 'user', content }] })).toBe(`<u>${content}</u>`);
  });
});
