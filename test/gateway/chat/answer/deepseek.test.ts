import { describeShapes } from './turns.js';

const list = (...calls: string[]) => `<｜tool▁calls▁begin｜>${calls.join('')}<｜tool▁calls▁end｜>`;
const call = (name: string, json: string) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json}<｜tool▁call▁end｜>`;
const fenced = (name: string, json: string) => call('function', `${name}\n\`\`\`json\n${json}\n\`\`\``);
const ROME = '{"place": "Rome"}';
const rome = { name: 'weather', args: ROME };

describeShapes(
  'calls of DeepSeek',
  { tools: 'deepseek' },
  {
    'no call': { text: 'a <｜ b', content: 'a <｜ b' },
    'one call': { text: list(call('weather', ROME)), calls: [rome] },
    'several calls': {
      text: list(call('weather', ROME), call('clock', '{}')),
      calls: [rome, { name: 'clock', args: '{}' }],
    },
    'one fenced call': { text: list(fenced('weather', ROME)), calls: [rome] },
    'several fenced calls on lines': {
      text: list(fenced('weather', ROME), '\n', fenced('weather', ROME)),
      calls: [rome, rome],
    },
    'text before and after calls': {
      text: `I look.\n${list(call('weather', ROME))}\nDone.`,
      content: 'I look.\nDone.',
      calls: [rome],
    },
    'a call without the list': { text: call('weather', ROME), calls: [rome] },
    'a list that is not closed': { text: `<｜tool▁calls▁begin｜>${call('weather', ROME)}`, calls: [rome] },
    'a function called function': { text: list(call('function', '{}')), calls: [{ name: 'function', args: '{}' }] },
    'quotes, fences and tokens in strings': {
      text: list(fenced('weather', '{"place": "\\"```\\n<｜tool▁call▁end｜>"}')),
      calls: [{ name: 'weather', args: '{"place": "\\"```\\n<｜tool▁call▁end｜>"}' }],
    },
    'characters beyond ASCII': {
      text: list(call('weather', '{"place": "東京 😀"}')),
      calls: [{ name: 'weather', args: '{"place": "東京 😀"}' }],
    },
    'arguments on several lines': {
      text: list(fenced('weather', '{\n  "place": "Rome"\n}')),
      calls: [{ name: 'weather', args: '{\n  "place": "Rome"\n}' }],
    },
    'escapes and nested values': {
      text: list(call('weather', '{"place": "\\\\ \\u00e9 \\"x\\"", "options": {"a": [{"b": "}"}]}}')),
      calls: [{ name: 'weather', args: '{"place": "\\\\ \\u00e9 \\"x\\"", "options": {"a": [{"b": "}"}]}}' }],
    },
    'no arguments in a fence': { text: list(fenced('clock', '{}')), calls: [{ name: 'clock', args: '{}' }] },
    'fenced arguments that are cut': {
      text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"place": "東',
      calls: [{ name: 'weather', args: '{"place": "東', isCut: true }],
    },
    'a second call that is cut behind its arguments': {
      text: `<｜tool▁calls▁begin｜>${call('weather', ROME)}<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}`,
      calls: [rome, { name: 'clock', args: '{}' }],
    },
    'arguments that are cut': {
      text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"place": "Ro',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
    'a name that is cut': {
      text: 'So<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>wea',
      content: 'So<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>wea',
    },
    'a call without its separator': {
      text: '<｜tool▁call▁begin｜>weather<｜tool▁call▁end｜>!',
      content: '<｜tool▁call▁begin｜>weather<｜tool▁call▁end｜>!',
    },
    'arguments that are no JSON': {
      text: list(call('weather', 'Rome')),
      content: list(call('weather', 'Rome')),
    },
    'a fence that never begins': {
      text: list(call('function', 'weather\nRome')),
      content: list(call('function', 'weather\nRome')),
    },
  },
);
