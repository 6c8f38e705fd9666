import { describe, expect, it } from 'vitest';
import { responseStart } from '../../../../src/gateway/chat/answer/answer-parser.js';
import { describeShapes, readTurn } from './turns.js';

const ROME = '{"place": "Rome"}';
const rome = { name: 'weather', args: ROME };
const clock = { name: 'clock', args: '{}' };

describeShapes(
  'calls of Functionary 3.2',
  { tools: 'functionary-v3.2' },
  {
    'an answer to all': { text: 'all\nIt is warm.', content: 'It is warm.' },
    'an answer without a recipient': { text: 'Once upon\na time', content: 'Once upon\na time' },
    'one call': { text: `weather\n${ROME}`, calls: [rome] },
    'a call behind an opener that the prompt has already': { text: `>>>weather\n${ROME}`, calls: [rome] },
    'several calls': { text: `weather\n${ROME}>>>clock\n{}`, calls: [rome, clock] },
    'several calls on lines of their own': { text: `weather\n${ROME}\n>>>clock\n{}\n`, calls: [rome, clock] },
    'text before a call': { text: `all\nI look.\n>>>weather\n${ROME}`, content: 'I look.', calls: [rome] },
    'text behind a call': { text: `weather\n${ROME}>>>all\nDone.`, content: 'Done.', calls: [rome] },
    'two messages to all': { text: 'all\nOne.>>>all\nTwo.', content: 'One.\nTwo.' },
    'a function that was not offered': { text: `all\nSo:\n>>>nobody\n${ROME}`, content: `So:\n>>>nobody\n${ROME}` },
    'arguments that are not an object': { text: 'weather\nin Rome', content: 'weather\nin Rome' },
    'a prompt of Python': { text: 'all\n>>> print(1)\n1', content: '>>> print(1)\n1' },
    'markup in a string': {
      text: 'weather\n{"place": ">>>all\\n"}',
      calls: [{ name: 'weather', args: '{"place": ">>>all\\n"}' }],
    },
    'arguments that are cut': {
      text: 'weather\n{"place": "Ro',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
    'a recipient that is cut': { text: 'all\nI look.>>>weath', options: { isCut: true }, content: 'I look.' },
    'a first line that is cut and is not a recipient': { text: 'weak', options: { isCut: true }, content: 'weak' },
    'no functions: the recipient of content is markup all the same': {
      text: 'all\nIt is warm.',
      options: { tools: [] },
      content: 'It is warm.',
    },
    'no functions: nothing is a call': {
      text: `weather\n${ROME}`,
      options: { tools: [] },
      content: `weather\n${ROME}`,
    },
  },
);

describe('an answer that the prompt has begun', () => {
  it('continues its content: its first line is not a recipient', () => {
    const format = { tools: 'functionary-v3.2' } as const;
    const start = responseStart(format, '>>>all\nThe recipients are', 'The recipients are');
    expect(readTurn(format, ['all\nof us.'], { start })).toEqual({ content: 'all\nof us.' });
  });
});
