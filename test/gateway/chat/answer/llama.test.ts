import { describeShapes } from './turns.js';

const ROME = '{"name": "weather", "parameters": {"place": "Rome"}}';
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of Llama 3',
  { tools: 'llama3' },
  {
    'no call': { text: 'It is noon.', content: 'It is noon.' },
    'one call': { text: ROME, calls: [rome] },
    'white space around a call': { text: `\n\n${ROME}\n`, calls: [rome] },
    'a call behind the python tag': { text: `<|python_tag|>${ROME}`, calls: [rome] },
    'several calls': {
      text: `${ROME}; ${ROME};{"name": "clock", "parameters": {}}`,
      calls: [rome, rome, { name: 'clock', args: '{}' }],
    },
    'several calls on lines': { text: `${ROME}\n${ROME}`, calls: [rome, rome] },
    'text behind a call': { text: `${ROME}\nThat is all.`, content: 'That is all.', calls: [rome] },
    'text before a tagged call': { text: `I look. <|python_tag|>${ROME}`, content: 'I look.', calls: [rome] },
    'arguments by their other name': { text: '{"name": "weather", "arguments": {"place": "Rome"}}', calls: [rome] },
    'a type': { text: '{"type": "function", "name": "weather", "parameters": {"place": "Rome"}}', calls: [rome] },
    'no arguments': { text: '{"name": "clock"}', calls: [{ name: 'clock', args: '{}' }] },
    'quotes and braces in strings': {
      text: '{"name": "weather", "parameters": {"place": "\\"};{\\""}}',
      calls: [{ name: 'weather', args: '{"place": "\\"};{\\""}' }],
    },
    'escapes, nested values and characters beyond ASCII': {
      text: '{"name": "weather", "parameters": {"place": "a\\\\b\\n\\u00e9 東京 😀", "options": {"c": [{"d": ""}]}}}',
      calls: [{ name: 'weather', args: '{"place": "a\\\\b\\n\\u00e9 東京 😀", "options": {"c": [{"d": ""}]}}' }],
    },
    'parameters that are empty': {
      text: '{"name": "clock", "parameters": {}}',
      calls: [{ name: 'clock', args: '{}' }],
    },
    'a second call that is cut in its name': {
      text: `${ROME}; {"name": "wea`,
      content: '; {"name": "wea',
      calls: [rome],
    },
    'an escape that is cut': {
      text: '{"name": "weather", "parameters": {"place": "a\\u00',
      calls: [{ name: 'weather', args: '{"place": "a\\u00', isCut: true }],
    },
    'arguments that are cut': {
      text: '{"name": "weather", "parameters": {"place": "Zür',
      calls: [{ name: 'weather', args: '{"place": "Zür', isCut: true }],
    },
    'JSON that is the answer': { text: '{"name": "Ada", "age": 36}', content: '{"name": "Ada", "age": 36}' },
    'JSON of a function that nobody offered': {
      text: '{"name": "other", "parameters": {}}',
      content: '{"name": "other", "parameters": {}}',
    },
    'JSON within a text': { text: `Write ${ROME}.`, content: `Write ${ROME}.` },
    'code behind the python tag': { text: '<|python_tag|>print(1)', content: '<|python_tag|>print(1)' },
    'a semicolon and no call': { text: `${ROME}; done`, content: '; done', calls: [rome] },
    'a list': { text: `[${ROME}]`, content: `[${ROME}]` },
    'a brace alone': { text: '{', content: '{' },
  },
);
