import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { ChatTemplate } from '../../../../src/gateway/chat/chat-template.js';
import {
  EncodeService,
  type EncodeServiceOptions,
  INLINE_CHARACTERS,
} from '../../../../src/gateway/request/encoding/encode-service.js';
import type { PromptInput } from '../../../../src/gateway/request/encoding/prompt.js';
import type { CallContext } from '../../../../src/gateway/request/encoding/text-threads.js';
import { ModelFile } from '../../../../src/gateway/request/model-file.js';
import { detokenize } from '../../../../src/lib/tokenizer/detokenizer.js';
import { createTokenizer } from '../../../../src/lib/tokenizer/tokenizer.js';
import { metadataOfFile, smallBpe } from '../../../lib/tokenizer/vocabularies.js';
import { compileWorker } from './compiled-worker.js';

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

afterEach(async () => {
  vi.useRealTimers();
  await service?.close();
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  worker.remove();
});

function callFrom(principal: string, signal = new AbortController().signal): CallContext {
  return { principal, peer: principal, trace: undefined, deadline: Number.POSITIVE_INFINITY, signal };
}

const FACTS = { modelName: 'm', contextLength: 1 << 20, vocabularySize: 512, longestTokenBytes: 16, maxPriority: 0 };
const SOMEBODY = callFrom('somebody');

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
  const encode = (text: string, callFrom = SOMEBODY) => started.encode(textInput(text), callFrom);
  return { tokenizer, chatTemplate, service: started, encode };
}

const textInput = (text: string): PromptInput => ({
  $case: 'text',
  value: { text, parseSpecial: false, addSpecial: false },
});

const chatInput = (role: string, content: string, name = ''): PromptInput => ({
  $case: 'chat',
  value: {
    messages: [{ role, content, name, toolCalls: [], toolCallId: '', reasoning: '' }],
    tools: [],
    addGenerationPrompt: undefined,
    templateVariablesJson: '',
    continueFinalMessage: false,
  },
});

/** Milliseconds of the clock of {@link startHung}, which stands still unless a test moves it. */
const TIME_LIMIT_MS = 300;

/**
 * A service with one thread, which hangs in a chat template until the time limit has passed. Templates are held to a number
 * of steps, so a thread that stands in for one hangs here; and the clock of limits is the test's, so that none but the hung
 * job takes long by it, however slow this machine is.
 */
async function startHung(settings: Partial<EncodeServiceOptions> = {}) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const hangs = join(folder, 'hangs.mjs');
  const hung = join(folder, `hung-${process.hrtime.bigint()}`);
  writeFileSync(
    hangs,
    `import { writeFileSync } from 'node:fs';
     import { parentPort } from 'node:worker_threads';
     const listen = parentPort.on.bind(parentPort);
     parentPort.on = (event, listener) =>
       listen(event, (job) => {
         const [message] = job.input.value?.messages ?? [];
         if (message?.content === 'loop') {
           parentPort.postMessage({ event: 'phase', phase: 'template' });
           writeFileSync(message.name, '');
           for (;;);
         }
         listener(job);
       });
     await import(${JSON.stringify(worker.file)});`,
  );
  const all = { inlineCharacters: 0, threads: 1, jobTimeLimitMs: TIME_LIMIT_MS, workerFile: hangs, ...settings };
  const started = start(undefined, all);
  const looping = started.service.encode(chatInput('user', 'loop', hung), callFrom('a'));
  let failure: Error | undefined;
  looping.catch((error: Error) => {
    failure = error;
  });
  while (!existsSync(hung) && failure === undefined) await new Promise((resolve) => setImmediate(resolve));
  // Messages that the thread sent before it wrote the file arrive in the next turn of the loop.
  await new Promise((resolve) => setImmediate(resolve));
  return { ...started, looping, release: () => vi.advanceTimersByTime(TIME_LIMIT_MS) };
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

describe('a chat template that hangs', () => {
  it('ends with CHAT_TEMPLATE_FAILED after the time limit, and costs nobody else a job', async () => {
    const { service, encode, looping, release } = await startHung();
    const others = [encode('hello'), service.encode(chatInput('user', 'hello'), SOMEBODY)];
    release();
    await expect(looping).rejects.toMatchObject({
      reason: 'CHAT_TEMPLATE_FAILED',
      message: 'the chat template failed: it took longer than 0.3 s',
    });
    expect((await Promise.all(others)).map(({ length }) => length > 0)).toEqual([true, true]);
  });
});

describe('jobs that wait for a thread', () => {
  /** A service with one thread that is busy until it is released. */
  async function busy(settings: Partial<EncodeServiceOptions> = {}) {
    const started = await startHung(settings);
    const order: string[] = [];
    const ask = (peer: string, text: string) =>
      started.encode(text, callFrom(peer)).then(
        () => order.push(peer),
        ({ reason }) => order.push(`${peer} ${reason}`),
      );
    return { ...started, order, ask };
  }

  it('are taken round by peers', async () => {
    const { ask, order, release } = await busy();
    const asked = [...Array.from({ length: 4 }, () => ask('a', 'hello')), ask('b', 'hello'), ask('c', 'hello')];
    release();
    await Promise.all(asked);
    expect(order).toEqual(['b', 'c', 'a', 'a', 'a', 'a']);
  });

  it('are refused when they are too many, the newest of whoever has the most', async () => {
    const { ask, order, release } = await busy({ maxJobs: 3 });
    const asked = [...Array.from({ length: 4 }, () => ask('a', 'hello')), ask('b', 'hello')];
    release();
    await Promise.all(asked);
    expect(order).toEqual(['a QUEUE_FULL', 'a QUEUE_FULL', 'b', 'a', 'a']);
  });

  it('are not begun when their callers have gone', async () => {
    const { encode, service, release } = await busy();
    const caller = new AbortController();
    // This one would hold the thread for ever: nobody moves the clock again.
    const gone = service
      .encode(chatInput('user', 'loop', join(folder, 'gone')), callFrom('b', caller.signal))
      .catch(({ message }) => message);
    caller.abort();
    const asked = encode('hello');
    release();
    expect(await asked).toHaveLength(1);
    expect(await gone).toBe('the call was cancelled');
  });
});
