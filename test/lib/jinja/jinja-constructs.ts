// One file because it is one list, whose renderings are committed in its order.

/** Variables of the constructs, as JSON: ints and floats as they are written. */
export const VARIABLES = `{
  "text": "  xaxx\\n", "name": "Ada", "empty": "", "emoji": "a😀é", "quoted": "it's \\"so\\"", "lines": "a\\nb\\r\\n\\nc",
  "yes": true, "no": false, "nothing": null,
  "int": 7, "big": 9007199254740993, "huge": 12345678901234567890123, "float": 1.0, "minus": -0.0, "small": 1e-7, "large": 1e22,
  "list": [3, 1, 2], "mixed": [1, 1.0, "1", true, null, [], {}], "names": ["b", "A", "c"], "nested": [[1, 2], [3]],
  "dict": {"b": 1, "10": 2, "2": 3, "items": [1]}, "odd": {"a": null, "b": true, "c": 1.5, "d": "x'y"},
  "people": [{"n": "Bo", "a": 3, "in": {"x": 1}}, {"n": "al", "a": 1, "in": {"x": 2}}, {"n": "Cy", "a": 3}]
}`;

/** Constructs of templates: each is rendered here and by Jinja. */
export const CONSTRUCTS: readonly string[] = [
  // Text.
  ...[
    '{{ text.strip() }}|',
    "{{ text.lstrip('\\n') }}|",
    "{{ text.strip(' x\\n') }}|",
    "{{ text.rstrip('\\nx') }}|",
    '{{ text | trim }}|',
  ],
  ...[
    "{{ text | trim('x\\n ') }}|",
    "{{ 'a,b,c'.split(',') }}",
    "{{ 'a,b,c'.split(',', 1) }}",
    "{{ 'a,b,c'.rsplit(',', 1) }}",
  ],
  ...[
    "{{ ' a  b '.split() }}",
    "{{ ' a  b c'.split(none, 1) }}",
    "{{ ' a b  c '.rsplit(none, 1) }}",
    "{{ 'abc'.split('') }}",
  ],
  ...[
    "{{ 'a-b-c'.partition('-') }}",
    "{{ 'a-b-c'.rpartition('-') }}",
    "{{ 'abc'.partition('x') }}",
    '{{ lines.splitlines() }}',
    '{{ lines.splitlines(true) }}',
  ],
  ...[
    "{{ 'aXb'.upper() }}{{ 'aXb'.lower() }}{{ 'hello WORLD'.capitalize() }}{{ 'hello wORLD'.title() }}{{ 'aXb'.swapcase() }}",
  ],
  ...[
    "{{ 'abcabc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'abc'.find('x') }}{{ 'abcabc'.find('a', 1) }}",
    "{{ 'abc'.index('x') }}",
  ],
  ...[
    "{{ 'abcabc'.count('bc') }}{{ 'abc'.count('') }}",
    "{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}{{ 'ab' | replace('b', 1) }}",
  ],
  ...[
    "{{ name.startswith('A') }}{{ name.startswith(('x', 'A')) }}{{ name.endswith('da') }}{{ name.startswith('d', 1) }}",
  ],
  ...[
    "{{ ', '.join(names) }}",
    "{{ ', '.join(list) }}",
    "{{ 'x'.center(4) }}|{{ 'x'.ljust(3, '.') }}|{{ 'x'.rjust(3) }}|{{ '-7'.zfill(4) }}",
  ],
  ...[
    "{{ 'prefix'.removeprefix('pre') }}{{ 'suffix'.removesuffix('fix') }}",
    "{{ 'ab1'.isalnum() }}{{ 'ab1'.isalpha() }}{{ '12'.isdigit() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'aB'.islower() }}",
  ],
  ...[
    "{{ emoji | length }}{{ emoji[1] }}{{ emoji[-1] }}{{ emoji[:2] }}{{ emoji[::-1] }}{{ emoji | reverse }}{{ emoji.find('é') }}",
  ],
  ...[
    "{{ 'abcdef'[1:4] }}{{ 'abcdef'[::2] }}{{ 'abcdef'[-2:] }}{{ 'abcdef'[10:] }}{{ 'abcdef'[4:1:-1] }}",
    "{{ 'abc'[5] }}|",
    "{{ 'a' 'b' \"c\" }}",
  ],
  ...[
    "{{ 'tab\\tquote\\'back\\\\slash\\x41\\u00e9\\q' }}",
    "{{ 'a' * 3 }}{{ 3 * 'b' }}{{ 'c' * 0 }}{{ 'd' * -1 }}{{ [1] * 2 }}",
  ],
  ...[
    "{{ '%s is %d, %.2f, %5d|%-5s|%05d|%x' % (name, 7.9, 2.675, 42, 'ab', -42, 255) }}",
    "{{ '%s' % name }}{{ '%r' % name }}{{ '%%' % () }}{{ '%(a)s' % {'a': 1} }}",
  ],
  ...[
    "{{ '%s %s' | format('a', 1.0) }}",
    "{{ '%s' % (1, 2) }}",
    "{{ '%d' % 'x' }}",
    "{{ '{} {} {{}}'.format('a', 1) }}{{ '{1}{0}'.format(1, 2) }}{{ '{x}'.format(x=none) }}",
  ],
  ...[
    "{{ 'hello big world' | truncate(10) }}",
    "{{ 'hello big world' | truncate(8, true, '~', 0) }}",
    "{{ 'a\\nb\\n\\nc' | indent }}",
    "{{ 'a\\nb' | indent(2, true) }}",
    "{{ 'a\\n\\nb' | indent('> ', blank=true) }}",
  ],
  ...["{{ 'hello-world (foo)' | title }}{{ 'hELLO' | capitalize }}{{ 'x y z' | wordcount }}{{ 'x' | center(5) }}|"],
  ...[
    "{{ '<a & \"b\">' | e }}{{ ('<' | safe) + '<' }}{{ '<' ~ ('<' | safe) }}{{ '<b>' | escape | upper }}",
    '{{ "it\'s " | safe + \'"\' + quoted }}',
  ],
  // Printing.
  ...[
    '{{ nothing }}{{ yes }}{{ no }}{{ missing }}|',
    '{{ mixed }}',
    '{{ dict }}{{ odd }}{{ nested }}',
    "{{ (1,) }}{{ (1, 'a') }}{{ () }}{{ range(3) }}{{ range(1, 9, 3) }}",
  ],
  ...[
    '{{ int }} {{ big }} {{ huge }} {{ float }} {{ minus }} {{ small }} {{ large }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345.6 }}',
  ],
  ...[
    "{{ quoted | list }}{{ [quoted, 'é', '\\n', '\\x00', '\\ue000', '\\u200b'] }}",
    '{{ [missing] }}',
    '{{ dict.items() }}{{ dict.keys() }}{{ dict.values() }}',
    '{{ namespace(a=1) }}',
  ],
  ...[
    '{{ nothing | string }}{{ list | string }}{{ dict | string | length }}{{ 1.0 | string }}{{ yes ~ nothing ~ 1.0 ~ missing ~ list }}',
    '{{ list | upper }}{{ nothing | upper }}{{ names | trim }}',
  ],
  // JSON.
  ...[
    '{{ mixed | tojson }}',
    '{{ dict | tojson }}{{ odd | tojson }}',
    '{{ big | tojson }}{{ huge | tojson }}{{ float | tojson }}{{ minus | tojson }}{{ large | tojson }}{{ small | tojson }}',
  ],
  ...[
    '{{ odd | tojson(indent=2) }}',
    '{{ nested | tojson(indent=4) }}{{ [] | tojson(indent=2) }}',
    "{{ dict | tojson(sort_keys=true, separators=(',', ':')) }}",
    '{{ emoji | tojson }}{{ emoji | tojson(ensure_ascii=true) }}',
  ],
  ...[
    '{{ missing | tojson }}',
    "{{ {1: 'a', none: 2, true: 3, 1.5: 4} | tojson }}",
    "{{ '</script>&\\u2028\\x7f' | tojson }}",
    '{{ (1, 2) | tojson }}',
    '{{ range(2) | tojson }}',
  ],
  // Numbers.
  ...[
    '{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}',
    '{{ 1 / 0 }}',
    '{{ 1 % 0 }}',
  ],
  ...[
    '{{ 9007199254740991 + 2 }} {{ 9007199254740993 * 9007199254740993 }} {{ -9007199254740993 // 10 }} {{ 2 ** 100 }} {{ 9007199254740993 - 1 }} {{ big / 3 }}',
  ],
  ...[
    '{{ true + 1 }} {{ -true }} {{ +3 }} {{ - 3 }} {{ -int | abs }} {{ 1 + 1.0 }} {{ 0x1F }} {{ 0b11 }} {{ 1_000 }} {{ 1.5e3 }}',
  ],
  ...[
    "{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ nothing | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ '1e400' | float }}",
  ],
  ...[
    "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 0.125 | round(2) }} {{ 7 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ -2.5 | abs }}",
  ],
  // Comparisons and logic.
  ...[
    "{{ 1 == 1.0 }}{{ 1 == true }}{{ '1' == 1 }}{{ [1] == [1.0] }}{{ (1,) == [1] }}{{ {'a': 1} == {'a': 1.0} }}{{ missing == missing }}{{ nothing == none }}",
  ],
  ...[
    "{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ big > 9007199254740992 }}{{ big == 9007199254740992 }}",
    "{{ 1 < 'a' }}",
    '{{ none < 1 }}',
  ],
  ...[
    "{{ 'a' in 'abc' }}{{ 1 in list }}{{ [3] in nested }}{{ list in [[3, 1, 2]] }}{{ '2' in dict }}{{ 2 in dict }}{{ 'x' not in names }}{{ 1 in missing }}",
    "{{ 1 in 'abc' }}",
    '{{ 1 in none }}',
  ],
  ...[
    "{{ nothing or 'x' }}{{ 0 and 1 }}{{ '' or [] }}{{ not missing }}{{ 'a' if yes else 'b' }}{{ 'a' if no }}|{{ not yes or no }}{{ 1 and 2 }}",
  ],
  ...[
    "{{ 1 + 2 * 3 ~ 'x' }}{{ -2 ** 2 }}{{ 2 ** 3 ** 2 }}{{ (1 + 2) * 3 }}{{ 1 ~ 2 + 3 }}{{ 10 - 2 - 3 }}",
    "{{ none + 'a' }}",
    "{{ 'a' + missing }}",
    "{{ 'a' + 1 }}",
    "{{ -'a' }}",
  ],
  // Tests.
  ...[
    "{{ missing is defined }}{{ nothing is none }}{{ name is string }}{{ dict is mapping }}{{ list is sequence }}{{ dict is sequence }}{{ 'a' is iterable }}{{ 7 is iterable }}{{ dict.items() is sequence }}",
  ],
  ...[
    '{{ yes is boolean }}{{ 1 is boolean }}{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}{{ true is number }}{{ yes is true }}{{ 1 is true }}{{ no is false }}{{ range is callable }}',
  ],
  ...[
    "{{ 4 is even }}{{ 3 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 }}{{ 1 is ne(2) }}{{ 2 is gt 1 }}{{ 1 is le 1 }}{{ 1 is in [1] }}{{ nothing is sameas none }}{{ 'A' is upper }}{{ 'a' is lower }}",
  ],
  ...[
    '{{ name is not string }}{{ missing is not defined or yes }}{{ missing is undefined and yes }}{{ missing.x is defined }}',
    '{{ name.x is defined }}{{ nothing.x is defined }}{{ dict.zz is none }}{{ 1 is nonsense }}',
  ],
  // Items and attributes.
  ...[
    "{{ dict.b }}{{ dict['10'] }}{{ dict.items is callable }}{{ dict['items'] }}{{ dict.get('b') }}{{ dict.get('z') }}{{ dict.get('z', 5) }}{{ dict.zz }}|{{ list[0] }}{{ list[-1] }}{{ list[9] }}|{{ list.0 }}",
  ],
  ...[
    "{{ {1: 'one', 2.0: 'two', true: 'yes'} }}{{ {1: 'one'}[1.0] }}{{ {1: 'one'}[true] }}{{ {none: 1}[none] }}",
    '{{ list[1:] }}{{ list[::-1] }}{{ (1, 2, 3)[1:] }}{{ range(5)[1:3] | list }}',
    '{{ nothing[1:] }}',
  ],
  ...[
    '{{ missing.x }}',
    "{{ missing['x'] }}",
    '{{ missing() }}',
    '{{ name() }}',
    '{{ dict.missing() }}',
    '{{ list.index(1) }}{{ list.count(9) }}',
    '{{ list.append(1) }}',
    "{{ dict.pop('b') }}",
    '{{ dict.update({}) }}|',
  ],
  ...[
    "{{ ''.__class__ }}|",
    "{{ ''.__class__.__mro__ }}",
    "{{ dict.constructor }}|{{ dict['__proto__'] }}|{{ name.constructor }}|{{ list.map }}|{{ list.length }}|{{ name.length }}|{{ range.call }}|{{ dict.get.name }}|",
  ],
  // Sequences.
  ...[
    "{{ list | sort }}{{ list | sort(reverse=true) }}{{ names | sort }}{{ names | sort(case_sensitive=true) }}{{ people | sort(attribute='a') | map(attribute='n') | list }}{{ people | sort(attribute='a,n') | map(attribute='n') | join }}",
  ],
  ...[
    "{{ people | map(attribute='in.x', default=0) | list }}{{ people | map(attribute='n') | map('upper') | list }}{{ list | map('string') | join('-') }}{{ [1.5, '2'] | map('int') | sum }}",
  ],
  ...[
    "{{ people | selectattr('a', 'equalto', 3) | map(attribute='n') | list }}{{ people | rejectattr('a', 'gt', 1) | map(attribute='n') | list }}{{ people | selectattr('in') | list | length }}{{ nothing | selectattr('a') | list }}",
  ],
  ...[
    "{{ list | select('odd') | list }}{{ list | reject('odd') | list }}{{ mixed | select | list }}{{ mixed | reject | list }}{{ [1, none] | select('none') | list }}{{ list | select('>', 1) | list }}",
    "{{ list | select('odd') | length }}",
  ],
  ...[
    "{{ list | first }}{{ list | last }}{{ [] | first }}|{{ list | min }}{{ list | max }}{{ names | min }}{{ [] | max }}|{{ people | max(attribute='a') | tojson }}",
    "{{ list | sum }}{{ people | sum(attribute='a') }}{{ [0.5, 1] | sum(start=1) }}{{ nested | sum(start=[]) }}",
    "{{ ['a'] | sum }}",
  ],
  ...[
    "{{ list | join(', ') }}{{ people | join('/', attribute='n') }}{{ 'abc' | join('-') }}{{ [1, none, 1.0] | join }}",
    '{{ none | join }}',
    "{{ [1, '1', 1.0, 'a', 'A'] | unique | list }}{{ list | reverse | list }}{{ dict | list }}{{ 'ab' | list }}",
  ],
  ...[
    "{{ dict | dictsort }}{{ dict | dictsort(by='value', reverse=true) }}{{ {'b': 1, 'A': 2} | dictsort }}",
    '{{ dict | items | list }}{{ missing | items | list }}',
    "{{ [1, 2, 3] | batch(2) | list }}{{ [1, 2, 3] | batch(2, 'x') | list }}",
  ],
  ...[
    "{% for g in people | groupby('a') %}{{ g.grouper }}:{{ g.list | length }}:{{ g[0] }};{% endfor %}",
    '{{ list | length }}{{ dict | count }}{{ missing | length }}',
    '{{ nothing | length }}',
    '{{ 7 | length }}',
  ],
  ...[
    "{{ missing | default('d') }}{{ '' | default('d') }}{{ '' | default('d', true) }}{{ nothing | d('d') }}{{ nothing | d('d', boolean=true) }}",
    '{{ list | nonsense }}',
    "{{ 'a' | upper('x') }}",
    '{{ list + [4] }}{{ (1,) + (2,) }}',
    '{{ list + (1,) }}',
  ],
  ...[
    "{% set it = list | map('string') %}{{ it | list }}{{ it | list }}{{ 'T' if it else 'F' }}",
    "{% set it = [] | map('string') %}{{ 'T' if it else 'F' }}",
  ],
  // Statements.
  ...[
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}",
  ],
  ...[
    '{% for x in [] %}x{% else %}none{% endfor %}',
    '{% for k, v in dict.items() %}{{ k }}={{ v }},{% endfor %}',
    '{% for k in dict %}{{ k }}{% endfor %}',
    '{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}',
    '{% for a, b in [[1]] %}{% endfor %}',
  ],
  ...[
    '{% for x in list if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}',
    '{% for x in list if x > 9 %}{% else %}none{% endfor %}',
    '{% for x in nothing %}{% endfor %}',
    '{% for x in missing %}x{% endfor %}|',
    '{% for c in emoji %}[{{ c }}]{% endfor %}',
    '{% for x in 1, 2 %}{{ x }}{% endfor %}',
  ],
  ...[
    '{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}',
    '{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}',
  ],
  ...[
    '{% set x = 1 %}{% for i in range(2) %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}',
    '{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x * 2 %}{% endfor %}{{ ns.x }}{{ ns.y }}|',
    '{% if yes %}{% set x = 2 %}{% endif %}{{ x }}',
    '{% set d = {} %}{% set d.x = 1 %}',
  ],
  ...[
    '{% set a, b = 1, 2 %}{{ a }}{{ b }}',
    '{% set t %}x{{ int }}{% endset %}{{ t }}{{ t | upper }}',
    "{% set t | upper | replace('X', 'y') %}x{% endset %}{{ t }}",
    '{% filter upper %}a{{ name }}{% endfilter %}',
    '{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}|',
  ],
  ...[
    "{% macro m(a, b=a, c='c') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }}|{{ m.name }}",
    '{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}',
    '{% macro m(a) %}{% endmacro %}{{ m(b=1) }}',
    '{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, b=2) }}',
    "{% macro m(a, b, c='c') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(1, *(2, 3)) }}{{ m(*[1], c=3) }}{{ m(*'xy') }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(**{'b': 1, 'a': 2}) }}{{ m(1, **{'b': 2}) }}{{ m(*[1], **{'b': 2}) }}{{ m(b=1, *[2]) }}",
    '{% macro m(a) %}{{ a }}{% endmacro %}{{ [m][0](*[[1]]) }}{{ m(*missing) }}',
    "{{ 'a b c'.split(*[' ', 1]) }}{{ dict(**{'x': 1}) }}{{ [3, 1] | sort(**{'reverse': true}) }}",
    '{% macro m(a) %}{% endmacro %}{{ m(*[1], 2) }}',
    "{% macro m(a) %}{% endmacro %}{{ m(a=1, **{'a': 2}) }}",
    '{% macro m(a) %}{% endmacro %}{{ m(**{1: 2}) }}',
    '{% macro m(a) %}{% endmacro %}{{ m(*1) }}',
    '{% macro m(a) %}{% endmacro %}{{ m(**1) }}',
  ],
  ...[
    '{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) | trim }}',
    '{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(x) m() %}{{ x }}{{ name }}{% endcall %}',
    '{% macro m() %}{{ y }}{% endmacro %}{% set y = 2 %}{{ m() }}',
    '{% macro m() %}{{ x }}{% endmacro %}{% for x in list %}{{ m() }}{% endfor %}|',
  ],
  ...[
    '{% if no %}a{% elif int == 7 %}b{% else %}c{% endif %}',
    '{% raw %}{{ x }}{% if %}{% endraw %}',
    '  {% raw -%}  x {%- endraw %}  y',
    '{% generation %}a{{ int }}{% endgeneration %}',
    '{# comment #}x{#- c -#} y',
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    '{% set j = joiner() %}{{ j() }}a{{ j() }}b',
  ],
  ...[
    '{{ dict(a=1, **{}) }}',
    "{{ dict(a=1) }}{{ dict({'b': 2}, a=1) }}{{ dict([('a', 1)]) }}",
    '{{ range(200000) }}',
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %p %I %y %% %-d %-m') }}",
    "{% include 'x' %}",
    '{% do list %}',
  ],
  // White space.
  ...[
    'a\n  {% if yes %}\n  b\n  {% endif %}\nc\n',
    'a\n  {{ int }}\n  b',
    'a  {%- if yes -%}  b  {%- endif -%}  c',
    '  {%+ if yes %}\n  b{% endif +%}\nc',
    'a\n{# c #}\nb',
    '{% if yes %}\n\nx{% endif %}',
    'x {% if yes %} y {% endif %} z',
    '\n{% set x = 1 %}\n{{ x }}\n\n',
    'a\r\nb\r\n',
    '   {%- set x = 1 %}\n   {{- x }}   ',
  ],
  // Syntax.
  ...[
    '{{ }}',
    '{% if %}{% endif %}',
    '{{ a b }}',
    "{{ 'a }}",
    '{% for x in list %}',
    '{% endfor %}',
    '{{ (1 }}',
    '{{ 1 +}}',
    '{% set 1 = 2 %}',
    '{{ x is }}',
    "{{ {'a': {'b': 1}}.a.b }}",
    "{{ {'a': {}}}}",
    "{{ [1, 2,] }}{{ {'a': 1,} }}",
    '{% break %}',
    "{{ 'a'if yes else'b' }}",
    '{{ not 1 == 2 }}',
    '{{ 1 is string is true }}',
  ],
];
