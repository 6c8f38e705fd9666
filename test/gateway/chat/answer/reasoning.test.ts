import { describe, expect, it } from 'vitest';
import type { AnswerFormat } from '../../../../src/gateway/chat/answer/answer-format.js';
import { type ResponseStart, responseStart } from '../../../../src/gateway/chat/answer/answer-parser.js';
import { describeShapes, readTurn } from './turns.js';

const CALL = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>';
const clock = { name: 'clock', args: '{}' };
const begun = { start: 'reasoning' } as const;

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
    'a call that the reasoning ends with': { text: `<think>I look.\n${CALL}`, reasoning: 'I look.', calls: [clock] },
    'calls and text behind reasoning that nothing else ends': {
      text: `I look.\n${CALL}\n${CALL}\nSo.`,
      reasoning: 'I look.',
      content: 'So.',
      calls: [clock, clock],
      options: begun,
    },
    'a call behind one that is only spoken of': {
      text: `They write <tool_call> here.\n${CALL}`,
      reasoning: 'They write <tool_call> here.',
      calls: [clock],
      options: begun,
    },
    'a call that is only spoken of': {
      text: `They write ${CALL} or <tool_call>.\n</think>\nDone.`,
      reasoning: `They write ${CALL} or <tool_call>.`,
      content: 'Done.',
      options: begun,
    },
    'the tag of a call in reasoning that nothing ends': {
      text: 'They write <tool_call> here.',
      reasoning: 'They write <tool_call> here.',
      options: begun,
    },
    'a call of a function that nobody offered, in reasoning that nothing ends': {
      text: '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
      reasoning: '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
      options: begun,
    },
    'a call in the reasoning that is cut': {
      text: 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "Ro',
      reasoning: 'I look.',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
      options: { ...begun, isCut: true },
    },
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
  'answers of Granite between tags',
  { reasoning: 'granite', tools: 'hermes' },
  {
    'reasoning and an answer': {
      text: '<think>Hm.</think>\n<response>\nHello.\n</response>\n',
      reasoning: 'Hm.',
      content: 'Hello.',
    },
    'an answer without reasoning': { text: '<response>Hello.</response>', content: 'Hello.' },
    'an answer without tags': { text: '<think>Hm.</think>Hello.', reasoning: 'Hm.', content: 'Hello.' },
    'an answer that nothing ends': { text: '<think>Hm.</think><response>Hello', reasoning: 'Hm.', content: 'Hello' },
    'an answer whose end is cut': {
      text: '<think>Hm.</think><response>Hello.</respon',
      reasoning: 'Hm.',
      content: 'Hello.',
      options: { isCut: true },
    },
    'tags within text': { text: 'Write <response> there.', content: 'Write <response> there.' },
    'a call behind the answer': { text: `<response>So.</response>\n${CALL}`, content: 'So.', calls: [clock] },
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

describe('where an answer starts', () => {
  it.each<[AnswerFormat, string, string | undefined, ResponseStart]>([
    [{ reasoning: 'think' }, '<|im_start|>assistant\n<think>\n', undefined, 'reasoning'],
    [{ reasoning: 'think' }, '<｜Assistant｜><think>', '', 'reasoning'],
    [{ reasoning: 'think' }, '<|im_start|>assistant\n', undefined, 'turn'],
    [{ reasoning: 'think' }, 'the tag <think> is', undefined, 'turn'],
    [{ reasoning: 'think' }, '<think>\n\n</think>\n\n', undefined, 'content'],
    [{ reasoning: 'think' }, '<think>\n\n</think>\n\nIt is', 'It is', 'continuation'],
    [{ reasoning: 'think' }, '<think>\n\n</think>\n\n<think>Hm', '<think>Hm', 'reasoning'],
    [{ reasoning: 'think' }, '<think>Hm</think>It', '<think>Hm</think>It', 'continuation'],
    [{ reasoning: 'harmony' }, '<|start|>assistant', undefined, 'turn'],
    [{ tools: 'harmony' }, '<|channel|>final<|message|>', undefined, 'content'],
    [{ reasoning: 'harmony' }, '<|channel|>final<|message|>It is', 'It is', 'continuation'],
    [{ reasoning: 'harmony' }, '<think>', undefined, 'turn'],
    [{}, '<think>', undefined, 'turn'],
    [{}, 'It is', 'It is', 'continuation'],
  ])('of the format %j behind %j with the beginning %j: %s', (format, promptEnd, begun, start) => {
    expect(responseStart(format, promptEnd, begun)).toBe(start);
  });
});

describe('a continued answer', () => {
  const continued = { start: 'continuation' } as const;

  it('has no markup of the reasoning that it ends', () => {
    const read = readTurn({ reasoning: 'think' }, [' hm.\n</think>\n\nParis, </think> it is.'], continued);
    expect(read).toEqual({ content: ' hm.\nParis, </think> it is.' });
  });

  it('keeps that markup at the beginning of a turn, where it is text', () => {
    const read = readTurn({ reasoning: 'think' }, ['The tag </think> ends it.']);
    expect(read).toEqual({ content: 'The tag </think> ends it.' });
  });
});
