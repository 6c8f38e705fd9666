import { describeShapes } from './turns.js';

const arg = (key: string, value: string) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`;
const call = (name: string, ...parts: string[]) => `<tool_call>${name}\n${parts.join('')}</tool_call>`;
const ROME = call('weather', arg('place', 'Rome'));
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of GLM',
  { tools: 'glm' },
  {
    'no call': { text: 'It is <b>noon</b>.', content: 'It is <b>noon</b>.' },
    'one call': { text: ROME, calls: [rome] },
    'a call without ends of lines': {
      text: '<tool_call>weather<arg_key>place</arg_key><arg_value>Rome</arg_value></tool_call>',
      calls: [rome],
    },
    'several calls': { text: `${ROME}\n${ROME}`, calls: [rome, rome] },
    'text before, between and after calls': {
      text: `One.\n${ROME} Two.${ROME}\nThree.`,
      content: 'One.\nTwo.Three.',
      calls: [rome, rome],
    },
    'a value that the next argument ends': {
      text: call('weather', '<arg_key>place</arg_key>\n<arg_value>Rome\n', arg('days', '2')),
      calls: [{ name: 'weather', args: '{"place": "Rome", "days": 2}' }],
    },
    'a value that the end of the call ends': {
      text: `${call('weather', '<arg_key>place</arg_key><arg_value>Rome\n')}\n${ROME}`,
      calls: [rome, rome],
    },
    'no arguments': { text: call('clock'), calls: [{ name: 'clock', args: '{}' }] },
    'values of each type': {
      text: call(
        'weather',
        arg('days', '2'),
        arg('factor', '1'),
        arg('exact', 'true'),
        arg('tags', '["a", {"b": 1}]'),
        arg('options', '{"c": []}'),
      ),
      calls: [
        {
          name: 'weather',
          args: '{"days": 2, "factor": 1, "exact": true, "tags": ["a", {"b": 1}], "options": {"c": []}}',
        },
      ],
    },
    'strings that look like something else': {
      text: call('weather', arg('place', '5'), arg('units', 'true'), arg('at', '7')),
      calls: [{ name: 'weather', args: '{"place": "5", "units": "true", "at": "7"}' }],
    },
    'null where it may be': {
      text: call('weather', arg('at', 'null')),
      calls: [{ name: 'weather', args: '{"at": null}' }],
    },
    'constants of Python': {
      text: call('weather', arg('exact', 'True'), arg('at', 'None')),
      calls: [{ name: 'weather', args: '{"exact": true, "at": null}' }],
    },
    'one of several types': {
      text: call('weather', arg('either', 'false'), arg('either', 'x')),
      calls: [{ name: 'weather', args: '{"either": false, "either": "x"}' }],
    },
    'values whose type is open': {
      text: call('weather', arg('any', '12345678901234567890'), arg('other', 'Rome'), arg('any', '{"a"')),
      calls: [{ name: 'weather', args: '{"any": 12345678901234567890, "other": "Rome", "any": "{\\"a\\""}' }],
    },
    'a number that is none': {
      text: call('weather', arg('days', 'two')),
      calls: [{ name: 'weather', args: '{"days": "two"}' }],
    },
    'quotes, ends of lines and markup in a string': {
      text: call('weather', arg('place', '"a"\n\\ </arg_key> <tool_call>\t')),
      calls: [{ name: 'weather', args: '{"place": "\\"a\\"\\n\\\\ </arg_key> <tool_call>\\t"}' }],
    },
    'characters beyond ASCII': {
      text: call('weather', arg('place', '東京 😀')),
      calls: [{ name: 'weather', args: '{"place": "東京 😀"}' }],
    },
    'an empty string, and escapes in values within values': {
      text: call('weather', arg('place', ''), arg('options', '{"a": [{"b": "\\"}\\u00e9"}]}')),
      calls: [{ name: 'weather', args: '{"place": "", "options": {"a": [{"b": "\\"}\\u00e9"}]}}' }],
    },
    'a second call that is cut in an object': {
      text: `${ROME}<tool_call>weather\n<arg_key>options</arg_key>\n<arg_value>{"a": "東`,
      calls: [rome, { name: 'weather', args: '{"options": {"a": "東', isCut: true }],
    },
    'a string that is cut': {
      text: `<tool_call>weather\n${arg('days', '2')}<arg_key>place</arg_key>\n<arg_value>Ro`,
      calls: [{ name: 'weather', args: '{"days": 2, "place": "Ro', isCut: true }],
    },
    'a number that is cut': {
      text: '<tool_call>weather\n<arg_key>days</arg_key>\n<arg_value>1',
      calls: [{ name: 'weather', args: '{"days": 1', isCut: true }],
    },
    'a key that is cut': {
      text: '<tool_call>weather\n<arg_key>pla',
      calls: [{ name: 'weather', args: '{"pla', isCut: true }],
    },
    'a key without a value': {
      text: call('weather', '<arg_key>place</arg_key>'),
      calls: [{ name: 'weather', args: '{"place": null}' }],
    },
    'a name that is cut': { text: '<tool_call>wea', content: '<tool_call>wea' },
    'something else behind the name': {
      text: '<tool_call>weather in Rome</tool_call>',
      content: '<tool_call>weather in Rome</tool_call>',
    },
    'something else among the arguments': {
      text: `<tool_call>weather\n${arg('place', 'Rome')}and so on</tool_call>`,
      content: 'and so on',
      calls: [rome],
    },
    'calls of another family': {
      text: '<tool_call>{"name": "clock"}</tool_call>',
      content: '<tool_call>{"name": "clock"}</tool_call>',
    },
  },
);

describeShapes(
  'calls within reasoning',
  { tools: 'glm', reasoning: 'think' },
  {
    'that end it': { text: `<think>I look.\n${ROME}`, reasoning: 'I look.', calls: [rome] },
    'that are only spoken of': { text: `<think>${ROME}</think>So.`, reasoning: ROME, content: 'So.' },
  },
);
