import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ChatTemplate } from '../../../src/gateway/chat/chat-template.js';
import { ModelFile } from '../../../src/gateway/model-file.js';
import { detokenize } from '../../../src/gateway/tokenizer/detokenizer.js';
import {
  EncodeService,
  type EncodeServiceOptions,
  INLINE_CHARACTERS,
} from '../../../src/gateway/tokenizer/encode-service.js';
import type { PromptInput } from '../../../src/gateway/tokenizer/prompt.js';
import { createTokenizer } from '../../../src/gateway/tokenizer/tokenizer.js';
import { sharedPath } from '../../support/shared-data.js';
import { compileWorker } from './compiled-worker.js';
import { metadataOfFile, smallBpe } from './vocabularies.js';

const options = { parseSpecial: false, addSpecial: false };
const TEMPLATE = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}';

let folder: string;
let worker: ReturnType<typeof compileWorker>;
let service: EncodeService | undefined;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'encode-service-'));
  worker = compileWorker();
  writeFileSync(join(folder, 'small.gguf'), smallBpe({ 'tokenizer.chat_template': TEMPLATE }).build());
});

afterEach(() => service?.close());
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  worker.remove();
});

const FACTS = { modelName: 'm', contextLength: 1 << 20, vocabularySize: 512, longestTokenBytes: 16, maxPriority: 0 };
const SOMEBODY = { peer: 'somebody', cancelled: false };

function start(modelPath = join(folder, 'small.gguf'), settings: Partial<EncodeServiceOptions> = {}) {
  const metadata = metadataOfFile(modelPath);
  const tokenizer = createTokenizer(metadata);
  const chatTemplate = new ChatTemplate(metadata, tokenizer);
  const started = new EncodeService({
    modelFile: new ModelFile(modelPath),
    tokenizer,
    hasChatTemplate: true,
    facts: FACTS,
    workerFile: worker.file,
    ...settings,
  });
  service = started;
  const encode = (text: string, requester = SOMEBODY) => started.encode(textInput(text), requester);
  return { tokenizer, chatTemplate, service: started, encode };
}

const textInput = (text: string): PromptInput => ({
  $case: 'text',
  value: { text, parseSpecial: false, addSpecial: false },
});

const chatInput = (role: string, content: string): PromptInput => ({
  $case: 'chat',
  value: {
    messages: [{ role, content, name: '', toolCalls: [], toolCallId: '' }],
    tools: [],
    addGenerationPrompt: undefined,
  },
});

/** A model whose template takes for ever when the conversation says so. */
function loopingModel(): string {
  const file = join(folder, 'loops.gguf');
  const loop = '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}';
  const template = `{% if messages[0].content == 'loop' %}${loop}{% endif %}${TEMPLATE}`;
  writeFileSync(file, smallBpe({ 'tokenizer.chat_template': template }).build());
  return file;
}

describe('the encode service', () => {
  it('gives the same ids in a thread as inline, for texts and conversations', async () => {
    const { tokenizer, chatTemplate, service, encode } = start();
    const text = 'hello world 😀 <|im_end|> '.repeat(1000);
    expect(text.length).toBeGreaterThan(INLINE_CHARACTERS);
    expect(await encode(text)).toEqual(Uint32Array.from(tokenizer.encodePrompt(text, options)));
    expect(await encode('hello')).toEqual(Uint32Array.from(tokenizer.encodePrompt('hello', options)));
    const conversation = { messages: [{ role: 'user', content: text }] };
    expect(await service.encode(chatInput('user', text), SOMEBODY)).toEqual(
      Uint32Array.from(chatTemplate.encode(conversation, tokenizer)),
    );
  });

  it('gives the same text in a thread as inline', async () => {
    const { tokenizer, service } = start();
    const ids = Uint32Array.from({ length: 20_000 }, (_, i) => i % tokenizer.vocabularySize);
    const text = await service.detokenize(ids, { wholeText: true }, SOMEBODY);
    expect(text).toBe(detokenize(tokenizer, ids));
  });

  it('answers jobs that overlap, each with its own ids', async () => {
    const { tokenizer, encode } = start(undefined, { inlineCharacters: 0 });
    const texts = Array.from({ length: 20 }, (_, i) => `hello ${i} `.repeat(i + 1));
    const ids = await Promise.all(texts.map((text) => encode(text)));
    expect(ids).toEqual(texts.map((text) => Uint32Array.from(tokenizer.encodePrompt(text, options))));
  });

  it('passes typed errors on from the thread', async () => {
    const { service, encode } = start(undefined, { inlineCharacters: 0 });
    await expect(encode('\ud800')).rejects.toMatchObject({ reason: 'INVALID_FIELD', metadata: { field: 'text' } });
    await expect(service.encode(chatInput('boss', 'x'), SOMEBODY)).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
  });

  it('fails the job of a thread that dies and starts another for the next', async () => {
    const broken = join(folder, 'breaks-once.mjs');
    const flag = join(folder, 'broken');
    writeFileSync(
      broken,
      `import { existsSync, writeFileSync } from 'node:fs';
       if (!existsSync(${JSON.stringify(flag)})) { writeFileSync(${JSON.stringify(flag)}, ''); throw new Error('no luck'); }
       await import(${JSON.stringify(worker.file)});`,
    );
    const { encode } = start(undefined, { inlineCharacters: 0, workerFile: broken });
    await expect(encode('hello')).rejects.toMatchObject({
      reason: 'INTERNAL',
      message: expect.stringContaining('no luck'),
    });
    expect(await encode('hello')).toHaveLength(1);
  });

  it('says what to build when the worker file is missing', async () => {
    const { encode } = start(undefined, { inlineCharacters: 0, workerFile: join(folder, 'nowhere.js') });
    await expect(encode('hello')).rejects.toMatchObject({
      reason: 'INTERNAL',
      message: expect.stringContaining('npm run build:ts'),
    });
  });

  it('rejects what it was at when it is closed, and everything after', async () => {
    const { service, encode } = start(undefined, { inlineCharacters: 0 });
    const rejected = expect(encode('hello')).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await service.close();
    await rejected;
    await expect(encode('hello')).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  });
});

describe('a chat template that loops for ever', () => {
  it('ends with CHAT_TEMPLATE_FAILED after the time limit, and costs nobody else a job', async () => {
    const { service, encode } = start(loopingModel(), { inlineCharacters: 0, threads: 1, jobTimeLimitMs: 300 });
    const looping = service.encode(chatInput('user', 'loop'), SOMEBODY);
    const others = [encode('hello'), service.encode(chatInput('user', 'hello'), SOMEBODY)];
    await expect(looping).rejects.toMatchObject({
      reason: 'CHAT_TEMPLATE_FAILED',
      message: 'the chat template failed: it took longer than 0.3 s',
    });
    expect((await Promise.all(others)).map(({ length }) => length > 0)).toEqual([true, true]);
  });
});

describe('jobs that wait for a thread', () => {
  /** A service with one thread that is busy until the time limit. */
  async function busy(settings: Partial<EncodeServiceOptions> = {}) {
    const all = { inlineCharacters: 0, threads: 1, jobTimeLimitMs: 500, ...settings };
    const started = start(loopingModel(), all);
    const order: string[] = [];
    const ask = (peer: string, text: string) =>
      started.encode(text, { peer, cancelled: false }).then(
        () => order.push(peer),
        ({ reason }) => order.push(`${peer} ${reason}`),
      );
    const looping = started.service.encode(chatInput('user', 'loop'), { peer: 'a', cancelled: false }).catch(() => 0);
    return { ...started, order, ask, looping };
  }

  it('are taken round by peers', async () => {
    const { ask, order } = await busy();
    await Promise.all([...Array.from({ length: 4 }, () => ask('a', 'hello')), ask('b', 'hello'), ask('c', 'hello')]);
    expect(order).toEqual(['b', 'c', 'a', 'a', 'a', 'a']);
  });

  it('are refused when they are too many, the newest of whoever has the most', async () => {
    const { ask, order } = await busy({ maxJobs: 3 });
    await Promise.all([...Array.from({ length: 4 }, () => ask('a', 'hello')), ask('b', 'hello')]);
    expect(order).toEqual(['a QUEUE_FULL', 'a QUEUE_FULL', 'b', 'a', 'a']);
  });

  it('are not begun when their callers have gone', async () => {
    const { encode, service, looping } = await busy();
    const caller = { peer: 'b', cancelled: false };
    // This one would hold the thread until the limit, too.
    const gone = service.encode(chatInput('user', 'loop'), caller).catch(({ message }) => message);
    caller.cancelled = true;
    expect(await encode('hello')).toHaveLength(1);
    await looping;
    expect(await gone).toBe('the call was cancelled');
  });
});

const KIB = 1024;
const INPUTS: Record<string, (units: number) => string> = {
  'one word without spaces': (units) => 'incomprehensibilities'.repeat(Math.ceil(units / 21)).slice(0, units),
  'a letter and a space in turn': (units) => ' a'.repeat(units / 2),
  'one kind of white space': (units) => ' '.repeat(units),
  emoji: (units) => '😀🦙'.repeat(units / 4),
};

/** Processor milliseconds of this process. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

describe.each(['llama-spm', 'llama-bpe'])('a megabyte for %s', (name) => {
  const path = sharedPath(`data/vocabs/ggml-vocab-${name}.gguf`);

  it.skipIf(path === undefined).each(Object.keys(INPUTS))('of %s takes processor time in proportion', (input) => {
    const tokenizer = createTokenizer(metadataOfFile(path!));
    const time = (units: number) => {
      const text = INPUTS[input]!(units);
      const runs = Array.from({ length: 3 }, () => {
        const start = cpuMs();
        tokenizer.encode(text, { parseSpecial: false });
        return cpuMs() - start;
      });
      return Math.min(...runs);
    };
    const [quarter, whole] = [time(256 * KIB), time(1024 * KIB)];
    console.log(`${name}, ${input}: 256 KiB ${quarter.toFixed(1)} ms, 1 MiB ${whole.toFixed(1)} ms of processor time`);
    expect(whole / quarter).toBeLessThanOrEqual(8);
  });
});
