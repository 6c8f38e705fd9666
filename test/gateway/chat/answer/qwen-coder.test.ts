import { describeShapes } from './turns.js';

const parameter = (key: string, value: string) => `<parameter=${key}>\n${value}\n</parameter>\n`;
const call = (name: string, ...parts: string[]) =>
  `<tool_call>\n<function=${name}>\n${parts.join('')}</function>\n</tool_call>`;
const ROME = call('weather', parameter('place', 'Rome'));
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of Qwen 3 Coder',
  { tools: 'qwen3-coder' },
  {
    'no call': { text: 'if a<b: pass', content: 'if a<b: pass' },
    'one call': { text: ROME, calls: [rome] },
    'several calls': { text: `${ROME}\n${ROME}`, calls: [rome, rome] },
    'text before, between and after calls': {
      text: `One.\n\n${ROME}\nTwo.\n${ROME}\nThree.`,
      content: 'One.\n\nTwo.\nThree.',
      calls: [rome, rome],
    },
    'a call on one line': {
      text: '<tool_call><function=weather><parameter=place>Rome</parameter></function></tool_call>',
      calls: [rome],
    },
    'a call without the outer tag': {
      text: `<function=weather>\n${parameter('place', 'Rome')}</function>`,
      calls: [rome],
    },
    'a value that the next parameter ends': {
      text: call('weather', '<parameter=place>\nRome\n', parameter('days', '2')),
      calls: [{ name: 'weather', args: '{"place": "Rome", "days": 2}' }],
    },
    'a value that the next parameter ends, on one line': {
      text: '<tool_call><function=weather><parameter=place>Rome<parameter=days>2</parameter></function></tool_call>',
      calls: [{ name: 'weather', args: '{"place": "Rome", "days": 2}' }],
    },
    'a value that the end of the call ends': {
      text: `${call('weather', '<parameter=days>\n2\n')}\n${call('weather', '<parameter=place>\nRome\n')}\n`,
      calls: [{ name: 'weather', args: '{"days": 2}' }, rome],
    },
    'the end of a call within a value': {
      text: call('weather', parameter('place', '</function>\n</tool_call>\nRome')),
      calls: [{ name: 'weather', args: '{"place": "</function>\\n</tool_call>\\nRome"}' }],
    },
    'no parameters': { text: call('clock'), calls: [{ name: 'clock', args: '{}' }] },
    'values of each type': {
      text: call(
        'weather',
        parameter('days', '2'),
        parameter('factor', '0.5'),
        parameter('exact', 'False'),
        parameter('tags', '["a"]'),
        parameter('at', 'None'),
      ),
      calls: [{ name: 'weather', args: '{"days": 2, "factor": 0.5, "exact": false, "tags": ["a"], "at": null}' }],
    },
    'strings that look like something else': {
      text: call('weather', parameter('place', '{"a": 1}')),
      calls: [{ name: 'weather', args: '{"place": "{\\"a\\": 1}"}' }],
    },
    'lines of a string, its own ends of lines kept': {
      text: call('weather', parameter('place', '\ndef f():\n    return "a"\n')),
      calls: [{ name: 'weather', args: '{"place": "\\ndef f():\\n    return \\"a\\"\\n"}' }],
    },
    'markup in a string': {
      text: call('weather', parameter('place', '</function></tool_call><parameter=days>')),
      calls: [{ name: 'weather', args: '{"place": "</function></tool_call><parameter=days>"}' }],
    },
    'characters beyond ASCII': {
      text: call('weather', parameter('place', 'Zürich 😀')),
      calls: [{ name: 'weather', args: '{"place": "Zürich 😀"}' }],
    },
    'quotes and escapes in strings, and in values within values': {
      text: call(
        'weather',
        parameter('place', '"a\\n" \\ \'b\''),
        parameter('options', '{"a": [{"b": "\\"}\\u00e9"}]}'),
      ),
      calls: [
        {
          name: 'weather',
          args: '{"place": "\\"a\\\\n\\" \\\\ \'b\'", "options": {"a": [{"b": "\\"}\\u00e9"}]}}',
        },
      ],
    },
    'a second call that is cut in a key': {
      text: `${ROME}\n<tool_call>\n<function=weather>\n<parameter=pla`,
      calls: [rome, { name: 'weather', args: '{"pla', isCut: true }],
    },
    'an empty string': {
      text: call('weather', '<parameter=place>\n</parameter>\n'),
      calls: [{ name: 'weather', args: '{"place": ""}' }],
    },
    'a string that is cut': {
      text: '<tool_call>\n<function=weather>\n<parameter=place>\nRo',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
    'a call that is cut behind a parameter': {
      text: `<tool_call>\n<function=weather>\n${parameter('place', 'Rome')}`,
      calls: [{ name: 'weather', args: '{"place": "Rome"', isCut: true }],
    },
    'a name that is cut': { text: '<tool_call>\n<function=weat', content: '<tool_call>\n<function=weat' },
    'a name without an end': {
      text: '<tool_call>\n<function=weather in Rome>',
      content: '<tool_call>\n<function=weather in Rome>',
    },
    'JSON in the tag': {
      text: '<tool_call>{"name": "clock"}</tool_call>',
      content: '<tool_call>{"name": "clock"}</tool_call>',
    },
    'something else among the parameters': {
      text: `<tool_call>\n<function=weather>\n${parameter('place', 'Rome')}and so on</function></tool_call>`,
      content: 'and so on',
      calls: [rome],
    },
  },
);

describeShapes(
  'calls within reasoning',
  { tools: 'qwen3-coder', reasoning: 'think' },
  {
    'that end it': { text: `<think>I look.\n${ROME}`, reasoning: 'I look.', calls: [rome] },
    'that are only spoken of': { text: `<think>${ROME}</think>So.`, reasoning: ROME, content: 'So.' },
  },
);
