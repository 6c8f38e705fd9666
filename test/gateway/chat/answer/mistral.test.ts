import { describeShapes } from './turns.js';

const ROME = '{"name": "weather", "arguments": {"place": "Rome"}}';
const rome = { name: 'weather', args: '{"place": "Rome"}' };
const clock = { name: 'clock', args: '{}' };

describeShapes(
  'calls of Mistral',
  { tools: 'mistral' },
  {
    'no call': { text: 'It is [noon].', content: 'It is [noon].' },
    'a list of one call': { text: `[TOOL_CALLS][${ROME}]`, calls: [rome] },
    'a list of several calls': {
      text: `[TOOL_CALLS] [${ROME}, {"name": "clock", "arguments": {}}]`,
      calls: [rome, clock],
    },
    'ids behind the arguments': {
      text: '[TOOL_CALLS][{"name": "weather", "arguments": {"place": "Rome"}, "id": "abcdefghi"}]',
      calls: [rome],
    },
    'ids before the arguments': {
      text: '[TOOL_CALLS][{"id": "abcdefghi", "name": "weather", "arguments": {"place": "Rome"}}]',
      calls: [{ ...rome, id: 'abcdefghi' }],
    },
    'arguments before the name': {
      text: '[TOOL_CALLS][{"arguments": {"place": "Rome"}, "name": "weather"}]',
      calls: [rome],
    },
    'text before a list': { text: `I look.[TOOL_CALLS][${ROME}]`, content: 'I look.', calls: [rome] },
    'text behind a list': { text: `[TOOL_CALLS][${ROME}] Done.`, content: 'Done.', calls: [rome] },
    'a list that is not closed': { text: `[TOOL_CALLS][${ROME}`, calls: [rome] },
    'a list whose arguments are cut': {
      text: `[TOOL_CALLS][${ROME}, {"name": "weather", "arguments": {"tags": ["a`,
      calls: [rome, { name: 'weather', args: '{"tags": ["a', isCut: true }],
    },
    'a list that goes on with something else': { text: `[TOOL_CALLS][${ROME}, 5]`, content: ', 5]', calls: [rome] },
    'one object without a list': { text: `[TOOL_CALLS]${ROME}`, calls: [rome] },
    'two objects without a list': { text: `[TOOL_CALLS]${ROME}, ${ROME}`, calls: [rome, rome] },
    'a call without arguments': { text: '[TOOL_CALLS]clock[ARGS]', calls: [{ name: 'clock', args: '{}' }] },
    'a name alone': { text: '[TOOL_CALLS]clock', calls: [{ name: 'clock', args: '{}' }] },
    'a name alone that nobody offered': { text: '[TOOL_CALLS]other', content: '[TOOL_CALLS]other' },
    'two calls without arguments': {
      text: '[TOOL_CALLS]clock[ARGS] [TOOL_CALLS]clock[ARGS]',
      calls: [
        { name: 'clock', args: '{}' },
        { name: 'clock', args: '{}' },
      ],
    },
    'a call that is cut behind its name': {
      text: '[TOOL_CALLS]clock[ARGS]',
      calls: [{ name: 'clock', args: '', isCut: true }],
      options: { isCut: true },
    },
    'an empty list': { text: '[TOOL_CALLS][]', content: '[TOOL_CALLS][]' },
    'a call by its name': { text: '[TOOL_CALLS]weather[ARGS]{"place": "Rome"}', calls: [rome] },
    'several calls by name': {
      text: '[TOOL_CALLS]weather[ARGS]{"place": "Rome"}[TOOL_CALLS]clock[ARGS]{}',
      calls: [rome, clock],
    },
    'an id behind a name': {
      text: '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"place": "Rome"}',
      calls: [{ ...rome, id: 'abcdefghi' }],
    },
    'a name without a marker behind it': { text: '[TOOL_CALLS]weather{"place": "Rome"}', calls: [rome] },
    'text around calls by name': {
      text: 'I look.\n[TOOL_CALLS]weather[ARGS]{"place": "Rome"}\nDone.',
      content: 'I look.\nDone.',
      calls: [rome],
    },
    'quotes, brackets and other characters in strings': {
      text: '[TOOL_CALLS]weather[ARGS]{"place": "[TOOL_CALLS]\\"] 東京 😀"}',
      calls: [{ name: 'weather', args: '{"place": "[TOOL_CALLS]\\"] 東京 😀"}' }],
    },
    'escapes and nested values in a list': {
      text: '[TOOL_CALLS][{"name": "weather", "arguments": {"place": "\\\\ \\u00e9 \\"]\\"", "options": {"a": [{"b": "}"}]}}}]',
      calls: [{ name: 'weather', args: '{"place": "\\\\ \\u00e9 \\"]\\"", "options": {"a": [{"b": "}"}]}}' }],
    },
    'a call by name that is cut': {
      text: '[TOOL_CALLS]weather[ARGS]{"place": "R',
      calls: [{ name: 'weather', args: '{"place": "R', isCut: true }],
    },
    'a name that is cut': { text: '[TOOL_CALLS]weat', content: '[TOOL_CALLS]weat' },
    'a sentence behind the marker': { text: '[TOOL_CALLS]I do not know.', content: '[TOOL_CALLS]I do not know.' },
    'a marker that is cut': { text: 'So [TOOL_', content: 'So [TOOL_' },
  },
);
