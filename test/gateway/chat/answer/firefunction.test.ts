import { describeShapes } from './turns.js';

const ROME = '{"name": "weather", "arguments": {"place": "Rome"}}';
const rome = { name: 'weather', args: '{"place": "Rome"}' };
const clock = { name: 'clock', args: '{}' };

describeShapes(
  'calls of Firefunction 2',
  { tools: 'firefunction' },
  {
    'no call': { text: 'Use functools.partial [1].', content: 'Use functools.partial [1].' },
    'one call': { text: `functools[${ROME}]`, calls: [rome] },
    'several calls': { text: `functools[${ROME}, {"name": "clock", "arguments": {}}]`, calls: [rome, clock] },
    'text before a call': { text: `I look. functools[${ROME}]`, content: 'I look.', calls: [rome] },
    'a list of something else': { text: 'functools[1, 2]', content: 'functools[1, 2]' },
    'a list that is not closed': { text: `functools[${ROME}`, calls: [rome] },
  },
);
