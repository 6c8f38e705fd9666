import { Command, InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import { readModelOptions } from '../../src/cli/serve/model-options.js';
import { addServeCommand } from '../../src/cli/serve/serve-command.js';

const serve = new Command('serve');
addServeCommand(serve);
const NAMES = ['chat', 'qwen', 'qwen:0.5b'];
const read = (...given: string[]) => Object.fromEntries(readModelOptions(given, NAMES, serve.options));

describe('options of one of several models', () => {
  it('are read as the command reads them', () => {
    expect(read('chat:kv-memory=2G', 'chat:max-context=4096', 'qwen:gpus=0,1', 'qwen:template-date')).toEqual({
      chat: { kvMemoryBytes: 2 ** 31, maxContext: 4096 },
      qwen: { gpus: [0, 1], templateDate: true },
    });
    expect(read()).toEqual({});
  });

  it('belong to the longest name that fits, and keep what stands in their value', () => {
    expect(read('qwen:0.5b:idle-unload=30', 'qwen:chat-template-kwargs={"a": "b=c:d"}')).toEqual({
      'qwen:0.5b': { idleUnloadMs: 30_000 },
      qwen: { chatTemplateKwargs: '{"a": "b=c:d"}' },
    });
  });

  it.each([
    ['small:gpu=1', 'it names none of the models; use NAME:OPTION=VALUE with one of chat, qwen, qwen:0.5b'],
    ['gpu=1', 'it names none of the models'],
    ['chat:listen=0.0.0.0:1', '"listen" is not an option of one model; use one of max-context, max-sequences,'],
    ['chat:gpu', 'gpu needs a value'],
    ['chat:template-date=1', 'template-date takes no value'],
    ['chat:gpu=-1', 'Give a whole number from 0 to 2147483647.'],
    ['chat:kv-cache-type=f64', 'Allowed choices are f16, f32, q8_0.'],
  ])('are refused as %s, by what is wrong', (given, why) => {
    expect(() => read(given)).toThrow(
      expect.objectContaining({
        reason: 'INVALID_OPTION',
        message: expect.stringContaining(`--model-option ${given}: ${why}`),
      }),
    );
    expect(() => read(given)).not.toThrow(InvalidArgumentError);
  });

  it('are refused when they are given twice', () => {
    expect(() => read('chat:gpu=0', 'chat:gpu=1')).toThrow('gpu is given twice for "chat"');
  });
});
