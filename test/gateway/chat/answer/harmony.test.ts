import { describeShapes } from './turns.js';

const ROME = '{"place": "Rome"}';
const rome = { name: 'weather', args: ROME };
const think = (text: string) => `<|channel|>analysis<|message|>${text}<|end|>`;
const say = (text: string) => `<|channel|>final<|message|>${text}<|return|>`;
const CALL = `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>${ROME}<|call|>`;

describeShapes(
  'turns of harmony',
  { tools: 'harmony', reasoning: 'harmony' },
  {
    'an answer': { text: say('It is noon.'), content: 'It is noon.' },
    'reasoning and an answer': {
      text: `${think('What time?')}<|start|>assistant${say('Noon.')}`,
      reasoning: 'What time?',
      content: 'Noon.',
    },
    'reasoning and a call': {
      text: `${think('I look.')}<|start|>assistant${CALL}`,
      reasoning: 'I look.',
      calls: [rome],
    },
    'a recipient before the channel': {
      text: `${think('I look.')}<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>${ROME}<|call|>`,
      reasoning: 'I look.',
      calls: [rome],
    },
    'a recipient first of all': {
      text: ` to=functions.weather<|channel|>commentary json<|message|>${ROME}<|call|>`,
      calls: [rome],
    },
    'a call in the channel of reasoning': {
      text: `<|channel|>analysis to=functions.weather code<|message|>${ROME}<|call|>`,
      calls: [rome],
    },
    'several calls': { text: `${CALL}<|start|>assistant${CALL}`, calls: [rome, rome] },
    'a preamble and a call': {
      text: `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant${CALL}`,
      content: 'I look.',
      calls: [rome],
    },
    'several messages of a kind': {
      text: `${think('One.')}<|start|>assistant${think('Two.')}<|start|>assistant<|channel|>commentary<|message|>A<|end|><|start|>assistant${say('B')}`,
      reasoning: 'One.\nTwo.',
      content: 'A\nB',
    },
    'a header that is begun twice': {
      text: `<|channel|>commentary to=assistant${think('Hm.')}<|start|>assistant<|channel|>analysis to=assistant${say('Yes.')}`,
      reasoning: 'Hm.',
      content: 'Yes.',
    },
    'a tool that is no function': {
      text: '<|channel|>commentary to=python code<|message|>print(1)<|call|>',
      calls: [{ name: 'python', args: 'print(1)' }],
    },
    'no arguments': {
      text: '<|channel|>commentary to=functions.clock<|message|><|call|>',
      calls: [{ name: 'clock', args: '{}' }],
    },
    'quotes and tokens in strings': {
      text: '<|channel|>commentary to=functions.weather<|message|>{"place": "\\"<|call|> 東京 😀"}<|call|>',
      calls: [{ name: 'weather', args: '{"place": "\\"<|call|> 東京 😀"}' }],
    },
    'escapes and nested values': {
      text: '<|channel|>commentary to=functions.weather<|message|>{"place": "\\\\ \\u00e9", "options": {"a": [{"b": "}"}]}}<|call|>',
      calls: [{ name: 'weather', args: '{"place": "\\\\ \\u00e9", "options": {"a": [{"b": "}"}]}}' }],
    },
    'a preamble between calls, and an answer behind them': {
      text: `${CALL}<|start|>assistant<|channel|>commentary<|message|>Again.<|end|><|start|>assistant${CALL}<|start|>assistant${say('Done.')}`,
      content: 'Again.\nDone.',
      calls: [rome, rome],
    },
    'a second call that is cut in its header': {
      text: `${CALL}<|start|>assistant<|channel|>commentary to=functions.wea`,
      content: '<|start|>assistant<|channel|>commentary to=functions.wea',
      calls: [rome],
    },
    'arguments that are cut': {
      text: '<|channel|>commentary to=functions.weather<|message|>{"place": "Ro',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
    'reasoning that is cut': { text: '<|channel|>analysis<|message|>Let me', reasoning: 'Let me' },
    'a message that is not ended before the next': {
      text: `<|channel|>analysis<|message|>Hm.<|start|>assistant${say('Yes.')}`,
      reasoning: 'Hm.',
      content: 'Yes.',
    },
    'a header that is cut': { text: '<|channel|>comm', content: '<|channel|>comm' },
    'a header without a message': { text: '<|channel|>final<|end|>Yes', content: '<|channel|>final\nYes' },
    'text without a header': { text: 'It is noon.', content: 'It is noon.' },
    'calls where no function was offered': { text: CALL, content: ROME, options: { tools: [] } },
  },
);

describeShapes(
  'turns of harmony whose reasoning is not parted',
  { tools: 'harmony' },
  {
    'reasoning and an answer': { text: `${think('Hm.')}<|start|>assistant${say('Yes.')}`, content: 'Hm.\nYes.' },
  },
);
