import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { RocmForgeClient } from '../../src/client/index.js';
import { endProcess, rocmforge, startRocmforge } from '../support/command-line.js';
import { writeRandomModel } from '../support/random-model.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const socket = (name: string) => `unix:${path.join(folder, name)}`;
const [chat, small] = [writeRandomModel({ seed: 1 }), writeRandomModel({ seed: 2, contextLength: 256 })];
const two = ['--model', `chat=${chat}`, '--model', `small=${small}`];

/** Processes that a process has started and that live. */
const childrenOf = (pid: number) =>
  readdirSync('/proc').filter((name) => {
    try {
      return (
        /^\d+$/.test(name) &&
        Number(/^\d+ \(.*\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))?.[1]) === pid
      );
    } catch {
      return false;
    }
  });

it('serve tells of each model, puts away what nobody asks for, brings it back, and ends in order meanwhile', async () => {
  const { child, line } = await startRocmforge(
    /^serving small on /,
    ...['serve', ...two, '--model-alias', 'gpt-4o=small', '--listen', socket('two.sock'), '--idle-unload', '1'],
  );
  expect(line).toMatch(/^serving small on .*: 4 sequences of 256 tokens, f16 KV cache, on host \S.*$/);
  const client = new RocmForgeClient(socket('two.sock'));
  try {
    const loaded = async () => (await client.listModels({})).models.map(({ name, loaded }) => [name, loaded]);
    await expect.poll(loaded, { interval: 50 }).toEqual([
      ['chat', false],
      ['small', false],
    ]);
    // It is unloaded from when its process is told to end.
    await expect.poll(() => childrenOf(child.pid as number), { interval: 10 }).toEqual([]);
    const { completions, model } = await client.generate({
      ...{ model: 'gpt-4o', input: { $case: 'text', value: { text: 'the fox' } } },
      stop: { maxTokens: 4, ignoreEos: true },
    });
    expect([model, completions[0]?.tokenIds.length]).toEqual(['small', 4]);
    expect(childrenOf(child.pid as number)).toHaveLength(1);
    await expect.poll(loaded, { interval: 50 }).toEqual([
      ['chat', false],
      ['small', false],
    ]);
  } finally {
    client.close();
  }
  // Replaced: nothing is there that could be.
  child.kill('SIGUSR2');
  expect(await endProcess(child)).toBe(0);
  expect(existsSync(path.join(folder, 'two.sock'))).toBe(false);
});

it('serve --load on-demand starts nothing, and says so', async () => {
  const args = ['serve', ...two, '--load', 'on-demand', '--listen', socket('demand.sock')];
  const { child, line } = await startRocmforge(/^serving chat on /, ...args);
  expect(line).toMatch(/: loaded on demand, sequences of 512 tokens, f16 KV cache$/);
  expect(childrenOf(child.pid as number)).toEqual([]);
  expect(await endProcess(child)).toBe(0);
});

it('serve says of a model that no request loads how it is loaded', async () => {
  const args = ['serve', ...two, '--model-option', 'small:load=on-command', '--listen', socket('command.sock')];
  const { child, line } = await startRocmforge(/^serving small on /, ...args);
  expect(line).toMatch(
    /: not loaded \(load it with admin --load-model or POST \/models\/load\), sequences of 256 tokens, f16 KV cache$/,
  );
  const client = new RocmForgeClient(socket('command.sock'));
  const generated = client.generate({ model: 'small', input: { $case: 'text', value: { text: 'the fox' } } });
  await expect(generated).rejects.toMatchObject({ reason: 'MODEL_NOT_LOADED' });
  client.close();
  expect(await endProcess(child)).toBe(0);
});

it('each of several models may have options of its own', async () => {
  const template = path.join(folder, 'template.jinja');
  writeFileSync(template, '{% for m in messages %}{{ m.content }}{% endfor %}');
  const own = [
    'small:max-context=128',
    'small:load=on-demand',
    'small:kv-cache-type=f32',
    `small:chat-template=${template}`,
  ];
  const { child, line } = await startRocmforge(
    /^serving small on /,
    ...['serve', ...two, '--listen', socket('own.sock'), '--model-option', ...own],
  );
  expect(line).toMatch(/: loaded on demand, sequences of 128 tokens, f32 KV cache$/);
  const client = new RocmForgeClient(socket('own.sock'));
  try {
    const models = async () =>
      (await client.listModels({})).models.map(({ name, loaded, contextLength }) => [name, loaded, contextLength]);
    expect(await models()).toEqual([
      ['chat', true, 512],
      ['small', false, 128],
    ]);
    expect(childrenOf(child.pid as number)).toHaveLength(1);
    const chatted = (model: string) =>
      client.generate({
        ...{ model, input: { $case: 'chat', value: { messages: [{ role: 'user', content: 'the fox' }] } } },
        stop: { maxTokens: 4, ignoreEos: true },
      });
    expect((await chatted('small')).completions[0]?.tokenIds).toHaveLength(4);
    await expect(chatted('chat')).rejects.toMatchObject({ reason: 'CHAT_TEMPLATE_MISSING' });
  } finally {
    client.close();
  }
  expect(await endProcess(child)).toBe(0);
});

it.each([
  [
    'an option of a model that there is not',
    [...two, '--model-option', 'tiny:gpu=1'],
    'INVALID_OPTION: --model-option tiny:gpu=1: it names none of the models; use NAME:OPTION=VALUE with one of chat, small',
  ],
  [
    'two models of one name',
    ['--model', `a=${chat}`, '--model', `a=${small}`],
    'INVALID_OPTION: two models are called "a"',
  ],
  [
    'an alias that is another model’s name',
    [...two, '--model-alias', 'small=chat'],
    'INVALID_OPTION: two models are called "small"',
  ],
  [
    'one template for several models',
    [...two, '--chat-template', 'x'],
    'INVALID_OPTION: --chat-template applies to one model',
  ],
  [
    'several models on executors elsewhere',
    [...two, '--executor', 'unix:/nowhere'],
    'INVALID_OPTION: several --model cannot be combined with --executor',
  ],
  [
    'putting away executors elsewhere',
    ['--model', chat, '--executor', 'unix:/nowhere', '--idle-unload', '5'],
    'INVALID_OPTION: --idle-unload cannot be combined with --executor',
  ],
  ['a second file that is not there', ['--model', chat, '--model', 'b=none.gguf'], 'MODEL_FILE_UNREADABLE'],
  [
    'models that find no room',
    [...two, '--kv-memory', '1K'],
    'OUT_OF_MEMORY: "chat": 1024 bytes of KV cache hold 0 tokens, less than one sequence of 512; give it more or lower the context; ' +
      'where models share a device, give each less with --kv-memory',
  ],
])('serve refuses %s', async (_, args, message) => {
  const { code, stdout, stderr } = await rocmforge('serve', '--listen', socket('refused.sock'), ...args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`rocmforge: ${message}`);
});
