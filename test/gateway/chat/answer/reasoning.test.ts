import { describe, expect, it } from 'vitest';
import { beginsInReasoning } from '../../../../src/gateway/chat/answer/answer-parser.js';
import { describeShapes } from './turns.js';

const CALL = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>';
const clock = { name: 'clock', args: '{}' };
const begun = { isInReasoning: true };

describeShapes(
  'reasoning between tags',
  { reasoning: 'think', tools: 'hermes' },
  {
    'an answer without': { text: 'Yes.', content: 'Yes.' },
    'reasoning and an answer': {
      text: '<think>\nHm.\n\nSo.\n</think>\n\nYes.\n',
      reasoning: 'Hm.\n\nSo.',
      content: 'Yes.\n',
    },
    'white space in front': { text: '\n<think>Hm.</think>Yes.', reasoning: 'Hm.', content: 'Yes.' },
    'no reasoning between the tags': { text: '<think>\n\n</think>\n\nYes.', content: 'Yes.' },
    'reasoning and a call': { text: `<think>Hm.</think>\n${CALL}`, reasoning: 'Hm.', calls: [clock] },
    'a call within the reasoning': { text: `<think>${CALL}</think>Yes.`, reasoning: CALL, content: 'Yes.' },
    'reasoning that is cut': { text: '<think>Let me <thi', reasoning: 'Let me <thi' },
    'an end that is cut': { text: '<think>Hm.</thi', reasoning: 'Hm.</thi' },
    'a tag later in the text': { text: 'Write <think> and </think>.', content: 'Write <think> and </think>.' },
    'a second pair of tags': {
      text: '<think>a</think>b<think>c</think>',
      reasoning: 'a',
      content: 'b<think>c</think>',
    },
    'a tag that is cut': { text: '<thi', content: '<thi' },
    'characters beyond ASCII': { text: '<think>東京 😀</think>😀', reasoning: '東京 😀', content: '😀' },
    'reasoning that the prompt has begun': {
      text: 'Hm.\n</think>\n\nYes.',
      reasoning: 'Hm.',
      content: 'Yes.',
      options: begun,
    },
    'reasoning that the prompt has begun and the model begins again': {
      text: '<think>\n\n</think>\n\nYes.',
      content: 'Yes.',
      options: begun,
    },
    'reasoning that the prompt has begun and nothing ends': { text: 'Hm.', reasoning: 'Hm.', options: begun },
    'calls that are text, where no function was offered': {
      text: `<think>a</think>${CALL}`,
      reasoning: 'a',
      content: CALL,
      options: { tools: [] },
    },
  },
);

describeShapes(
  'reasoning of Mistral',
  { reasoning: 'mistral', tools: 'mistral' },
  {
    'reasoning and an answer': { text: '[THINK]Hm.[/THINK]Yes.', reasoning: 'Hm.', content: 'Yes.' },
    'reasoning and a call': { text: '[THINK]Hm.[/THINK][TOOL_CALLS]clock[ARGS]{}', reasoning: 'Hm.', calls: [clock] },
    'reasoning that is cut': { text: '[THINK]Hm', reasoning: 'Hm' },
  },
);

describe('a prompt has begun the reasoning', () => {
  it.each(['<|im_start|>assistant\n<think>\n', '<｜Assistant｜><think>'])('where it ends with the tag: %j', (end) => {
    expect(beginsInReasoning({ reasoning: 'think' }, end)).toBe(true);
  });

  it.each(['<|im_start|>assistant\n', '<think>\n\n</think>\n\n', 'the tag <think> is'])('but not with %j', (end) => {
    expect(beginsInReasoning({ reasoning: 'think' }, end)).toBe(false);
  });

  it('and nowhere else where the model does not reason so', () => {
    expect(beginsInReasoning({ reasoning: 'harmony' }, '<think>')).toBe(false);
    expect(beginsInReasoning({}, '<think>')).toBe(false);
  });
});
