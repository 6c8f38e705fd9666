import { describe, expect, it } from 'vitest';
import { answerFormatOf } from '../../../../src/gateway/chat/answer/answer-format.js';
import { describeShapes } from './turns.js';

const call = (name: string, args: string) => `<|tool_call>call:${name}${args}<tool_call|>`;
const ROME = call('weather', '{place:<|"|>Rome<|"|>}');
const rome = { name: 'weather', args: '{"place": "Rome"}' };

describeShapes(
  'calls of Gemma 4',
  { tools: 'gemma4', reasoning: 'gemma4' },
  {
    'no call': { text: 'It is <b>noon</b>.', content: 'It is <b>noon</b>.' },
    'one call': { text: ROME, calls: [rome] },
    'several calls': { text: `${ROME}${ROME}`, calls: [rome, rome] },
    'text before and between calls': { text: `One.\n${ROME} Two.${ROME}`, content: 'One.\nTwo.', calls: [rome, rome] },
    'no arguments': { text: call('clock', '{}'), calls: [{ name: 'clock', args: '{}' }] },
    'values of each type': {
      text: call('weather', '{days:2,exact:true,none:null,tags:[<|"|>a<|"|>,{b:1.5e3}],options:{c:[],d:-1}}'),
      calls: [
        {
          name: 'weather',
          args: '{"days": 2, "exact": true, "none": null, "tags": ["a", {"b": 1.5e3}], "options": {"c": [], "d": -1}}',
        },
      ],
    },
    'strings with quotes, braces and line ends': {
      text: call('weather', '{place:<|"|>a "b" {c}, [d]\n\\e<|"|>}'),
      calls: [{ name: 'weather', args: JSON.stringify({ place: 'a "b" {c}, [d]\n\\e' }).replace(':', ': ') }],
    },
    'arguments that are JSON': {
      text: call('weather', '{"place": "R\\"ome", "days": 2}'),
      calls: [{ name: 'weather', args: '{"place": "R\\"ome", "days": 2}' }],
    },
    'words without quotes': {
      text: call('weather', '{place:Rome, exact:True}'),
      calls: [{ name: 'weather', args: '{"place": "Rome", "exact": true}' }],
    },
    'reasoning in front': {
      text: `<|channel>thought\nWhere?<channel|>${ROME}`,
      reasoning: 'Where?',
      calls: [rome],
    },
    'a channel of thoughts that is empty': { text: '<|channel>thought\n<channel|>Noon.', content: 'Noon.' },
    'markup that is not a call': { text: 'See <|tool_call>here.', content: 'See <|tool_call>here.' },
  },
);

describe('the format of Gemma 4’s templates', () => {
  it('follows from their markup', () => {
    const template =
      "{{ '<|turn>model\\n<|channel>thought\\n<channel|>' }}{{ '<|tool_call>call:' }}{{ '<tool_call|>' }}";
    expect(answerFormatOf(template)).toEqual({ tools: 'gemma4', reasoning: 'gemma4' });
  });
});
