import { describeShapes } from './turns.js';

const call = (json: string) => `<tool_call>\n${json}\n</tool_call>`;
const ROME = '{"name": "weather", "arguments": {"place": "Rome"}}';
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of Hermes and Qwen',
  { tools: 'hermes' },
  {
    'no call': { text: ' It is noon.\n', content: ' It is noon.\n' },
    'nothing at all': { text: '' },
    'white space alone': { text: ' \n', content: ' \n' },
    'one call': { text: call(ROME), calls: [rome] },
    'several calls': {
      text: `${call(ROME)}\n${call('{"name": "clock", "arguments": {}}')}`,
      calls: [rome, { name: 'clock', args: '{}' }],
    },
    'several calls with nothing between': { text: call(ROME) + call(ROME), calls: [rome, rome] },
    'text before a call': { text: `I look.\n\n${call(ROME)}`, content: 'I look.', calls: [rome] },
    'text before, between and after calls': {
      text: `One.\n${call(ROME)}\nTwo.\n${call(ROME)}\nThree.\n`,
      content: 'One.\nTwo.\nThree.\n',
      calls: [rome, rome],
    },
    'quotes, escapes and brackets in strings': {
      text: call('{"name": "weather", "arguments": {"place": "a \\"}{][\\" \\\\", "tags": [{"a": "]"}]}}'),
      calls: [{ name: 'weather', args: '{"place": "a \\"}{][\\" \\\\", "tags": [{"a": "]"}]}' }],
    },
    'markup in strings': {
      text: call('{"name": "weather", "arguments": {"place": "</tool_call><tool_call>"}}'),
      calls: [{ name: 'weather', args: '{"place": "</tool_call><tool_call>"}' }],
    },
    'characters beyond ASCII': {
      text: call('{"name": "weather", "arguments": {"place": "Zürich 😀 \\u00e9"}}'),
      calls: [{ name: 'weather', args: '{"place": "Zürich 😀 \\u00e9"}' }],
    },
    'escapes in a name': {
      text: call('{"name": "w\\u0065ather", "arguments": {}}'),
      calls: [{ name: 'weather', args: '{}' }],
    },
    'a function that nobody offered': {
      text: call('{"name": "other", "arguments": {}}'),
      calls: [{ name: 'other', args: '{}' }],
    },
    'no arguments at all': { text: call('{"name": "clock"}'), calls: [{ name: 'clock', args: '{}' }] },
    'arguments that are null': {
      text: call('{"name": "clock", "arguments": null}'),
      calls: [{ name: 'clock', args: '{}' }],
    },
    'parameters instead of arguments': {
      text: call('{"name": "weather", "parameters": {"place": "Rome"}}'),
      calls: [rome],
    },
    'arguments before the name': { text: call('{"arguments": {"place": "Rome"}, "name": "weather"}'), calls: [rome] },
    'an id and a type': {
      text: call('{"type": "function", "id": "c1", "name": "weather", "arguments": {"place": "Rome"}}'),
      calls: [{ ...rome, id: 'c1' }],
    },
    'members behind the arguments': {
      text: call('{"name": "weather", "arguments": {"place": "Rome"}, "type": "function"}'),
      calls: [rome],
    },
    'a call that is not closed before the next': { text: `<tool_call>${ROME}\n${call(ROME)}`, calls: [rome, rome] },
    'a call whose tag is not closed': { text: `<tool_call>${ROME}`, calls: [rome] },
    'a brace too many': { text: `<tool_call>${ROME}}</tool_call>`, content: '}', calls: [rome] },
    'arguments that are cut': {
      text: '<tool_call>\n{"name": "weather", "arguments": {"place": "Ro',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
    'a call that is cut behind its arguments': {
      text: '<tool_call>\n{"name": "weather", "arguments": {"place": "Rome"}',
      calls: [rome],
    },
    'a call that is cut in its name': {
      text: 'So: <tool_call>\n{"name": "wea',
      content: 'So: <tool_call>\n{"name": "wea',
    },
    'a tag that is cut': { text: 'So: <tool_', content: 'So: <tool_' },
    'what is not JSON': {
      text: '<tool_call>weather(Rome)</tool_call> Yes.',
      content: '<tool_call>weather(Rome)</tool_call> Yes.',
    },
    'a call without a name': { text: call('{"arguments": {}}'), content: call('{"arguments": {}}') },
    'a name that is empty': {
      text: call('{"name": "", "arguments": {}}'),
      content: call('{"name": "", "arguments": {}}'),
    },
    'a name that is no string': {
      text: call('{"name": 1, "arguments": {}}'),
      content: call('{"name": 1, "arguments": {}}'),
    },
    'arguments that are no object': {
      text: call('{"name": "clock", "arguments": "Rome"}'),
      content: call('{"name": "clock", "arguments": "Rome"}'),
    },
    'arguments as a string of JSON': {
      text: call('{"name": "weather", "arguments": "{\\n \\"place\\": \\"Rome\\"}", "id": "a"}'),
      calls: [{ name: 'weather', args: '{\n "place": "Rome"}' }],
    },
    'such arguments in front of the name': {
      text: call('{"arguments": "{\\"place\\": 1}", "name": "weather"}'),
      calls: [{ name: 'weather', args: '{"place": 1}' }],
    },
    'such arguments that are empty': {
      text: call('{"name": "clock", "arguments": ""}'),
      calls: [{ name: 'clock', args: '{}' }],
    },
    'such arguments that are cut': {
      text: '<tool_call>{"name": "weather", "arguments": "{\\"place\\": \\"Ro\\',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
      options: { isCut: true },
    },
    'two calls in one tag': { text: `<tool_call>${ROME}\n${ROME}</tool_call>`, calls: [rome, rome] },
    'a list of calls in one tag': {
      text: `<tool_call>[${ROME}, ${ROME}]</tool_call> So.`,
      content: 'So.',
      calls: [rome, rome],
    },
    'a call behind one that is none': {
      text: `<tool_call>no</tool_call>${call(ROME)}`,
      content: '<tool_call>no</tool_call>',
      calls: [rome],
    },
    'a tag in a tag': { text: `<tool_call>${call(ROME)}`, content: '<tool_call>', calls: [rome] },
    'a closing tag alone': { text: 'Write </tool_call> there.', content: 'Write </tool_call> there.' },
    'arguments that are no JSON, up to the tag': {
      text: '<tool_call>{"name": "weather", "arguments": {place: [Rome}</tool_call>',
      calls: [{ name: 'weather', args: '{place: [Rome}' }],
    },
    'half a surrogate pair at the end': { text: 'a\ud83d', content: 'a\ud83d' },
    'calls where no function was offered': { text: call(ROME), content: call(ROME), options: { tools: [] } },
    'one call, where more are not wanted': {
      text: `A ${call(ROME)} B ${call(ROME)} C`,
      content: 'A',
      calls: [rome],
      options: { mostCalls: 1 },
    },
  },
);
