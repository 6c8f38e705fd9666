import { describeShapes } from './turns.js';

const parameter = (key: string, value: string) => `<parameter=${key}>${value}</parameter>\n`;
const call = (name: string, ...parts: string[]) =>
  `<seed:tool_call>\n<function=${name}>\n${parts.join('')}</function>\n</seed:tool_call>`;
const ROME = call('weather', parameter('place', 'Rome'));
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of Seed-OSS',
  { tools: 'seed-oss' },
  {
    'no call': { text: 'if a<b: pass', content: 'if a<b: pass' },
    'another model’s markup': { text: '<function=weather>', content: '<function=weather>' },
    'one call': { text: ROME, calls: [rome] },
    'several calls': { text: `${ROME}\n${ROME}`, calls: [rome, rome] },
    'text before and behind a call': { text: `One.\n${ROME}\nTwo.`, content: 'One.\nTwo.', calls: [rome] },
    'no parameters': { text: call('clock'), calls: [{ name: 'clock', args: '{}' }] },
    'a text of several lines, with its line ends': {
      text: call('weather', parameter('place', '\nRome\n')),
      calls: [{ name: 'weather', args: '{"place": "\\nRome\\n"}' }],
    },
    'values as Python prints them': {
      text: call(
        'weather',
        parameter('days', '2'),
        parameter('exact', 'True'),
        parameter('tags', `['a', "it's", {'b': None}]`),
      ),
      calls: [{ name: 'weather', args: `{"days": 2, "exact": true, "tags": ["a", "it's", {"b": null}]}` }],
    },
    'what is no list although it begins like one': {
      text: call('weather', parameter('tags', "['a'")),
      calls: [{ name: 'weather', args: `{"tags": "['a'"}` }],
    },
  },
);

describeShapes(
  'calls of Seed-OSS behind reasoning',
  { tools: 'seed-oss', reasoning: 'seed-oss' },
  {
    'reasoning and an answer': {
      text: '<seed:think>Hm.</seed:think>Rome.',
      reasoning: 'Hm.',
      content: 'Rome.',
    },
    'reasoning and a call': { text: `<seed:think>Hm.</seed:think>\n${ROME}`, reasoning: 'Hm.', calls: [rome] },
  },
);
