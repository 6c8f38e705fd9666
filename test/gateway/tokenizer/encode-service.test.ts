import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ChatTemplate } from '../../../src/gateway/chat/chat-template.js';
import { ModelFile } from '../../../src/gateway/model-file.js';
import { EncodeService, INLINE_LIMIT } from '../../../src/gateway/tokenizer/encode-service.js';
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

function start(modelPath = join(folder, 'small.gguf'), settings: { workerFile?: string; inlineLimit?: number } = {}) {
  const metadata = metadataOfFile(modelPath);
  const tokenizer = createTokenizer(metadata);
  const chatTemplate = new ChatTemplate(metadata, tokenizer);
  service = new EncodeService({
    modelFile: new ModelFile(modelPath),
    tokenizer,
    chatTemplate,
    workerFile: worker.file,
    ...settings,
  });
  return { tokenizer, chatTemplate, service };
}

describe('the encode service', () => {
  it('gives the same ids in a thread as inline, for texts and conversations', async () => {
    const { tokenizer, chatTemplate, service } = start();
    const text = 'hello world 😀 <|im_end|> '.repeat(1000);
    expect(text.length).toBeGreaterThan(INLINE_LIMIT);
    expect(await service.encodePrompt(text, options)).toEqual(tokenizer.encodePrompt(text, options));
    expect(await service.encodePrompt('hello', options)).toEqual(tokenizer.encodePrompt('hello', options));
    const conversation = { messages: [{ role: 'user', content: text }] };
    expect(await service.encodeChat(conversation)).toEqual(chatTemplate.encode(conversation, tokenizer));
  });

  it('answers jobs that overlap, each with its own ids', async () => {
    const { tokenizer, service } = start(undefined, { inlineLimit: 0 });
    const texts = Array.from({ length: 20 }, (_, i) => `hello ${i} `.repeat(i + 1));
    const ids = await Promise.all(texts.map((text) => service.encodePrompt(text, options)));
    expect(ids).toEqual(texts.map((text) => tokenizer.encodePrompt(text, options)));
  });

  it('passes typed errors on from the thread', async () => {
    const { service } = start(undefined, { inlineLimit: 0 });
    await expect(service.encodePrompt('\ud800', options)).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
      metadata: { field: 'text' },
    });
    await expect(service.encodeChat({ messages: [{ role: 'boss', content: 'x' }] })).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
    });
  });

  it('fails the jobs of a thread that dies and starts another for the next', async () => {
    const broken = join(folder, 'breaks-once.mjs');
    const flag = join(folder, 'broken');
    writeFileSync(
      broken,
      `import { existsSync, writeFileSync } from 'node:fs';
       if (!existsSync(${JSON.stringify(flag)})) { writeFileSync(${JSON.stringify(flag)}, ''); throw new Error('no luck'); }
       await import(${JSON.stringify(worker.file)});`,
    );
    const { service } = start(undefined, { inlineLimit: 0, workerFile: broken });
    await expect(service.encodePrompt('hello', options)).rejects.toMatchObject({
      reason: 'INTERNAL',
      message: expect.stringContaining('no luck'),
    });
    expect(await service.encodePrompt('hello', options)).toHaveLength(1);
  });

  it('says what to build when the worker file is missing', async () => {
    const { service } = start(undefined, { inlineLimit: 0, workerFile: join(folder, 'nowhere.js') });
    await expect(service.encodePrompt('hello', options)).rejects.toMatchObject({
      reason: 'INTERNAL',
      message: expect.stringContaining('npm run build:ts'),
    });
  });

  it('rejects what it was at when it is closed, and everything after', async () => {
    const { service } = start(undefined, { inlineLimit: 0 });
    const pending = service.encodePrompt('hello', options);
    const rejected = expect(pending).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
    await service.close();
    await rejected;
    await expect(service.encodePrompt('hello', options)).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  });
});

/** Milliseconds a fixed piece of arithmetic takes here and now, over what it takes on the reference machine (20 ms). */
function slowness(): number {
  const start = performance.now();
  let sum = 0;
  for (let i = 0; i < 20_000_000; i++) sum = (Math.imul(sum, 31) + i) | 0;
  return Math.max(1, (performance.now() - start + (sum === 1 ? 1 : 0)) / 20);
}

const KIB = 1024;
const INPUTS: Record<string, (units: number) => string> = {
  'one word without spaces': (units) => 'incomprehensibilities'.repeat(Math.ceil(units / 21)).slice(0, units),
  'a letter and a space in turn': (units) => ' a'.repeat(units / 2),
  'one kind of white space': (units) => ' '.repeat(units),
  emoji: (units) => '😀🦙'.repeat(units / 4),
};

describe.each(['llama-spm', 'llama-bpe'])('a megabyte for %s', (name) => {
  const path = sharedPath(`data/vocabs/ggml-vocab-${name}.gguf`);

  it.skipIf(path === undefined).each(Object.keys(INPUTS))('of %s does not hold up the event loop', async (input) => {
    const { service } = start(path!);
    const text = INPUTS[input]!(1024 * KIB);
    await service.encodePrompt(text.slice(0, 16 * KIB), options);
    const factor = slowness();
    const delay = monitorEventLoopDelay({ resolution: 2 });
    delay.enable();
    const ids = await service.encodePrompt(text, options);
    delay.disable();
    const worst = delay.max / 1e6;
    console.log(
      `${name}, ${input}: ${ids.length} ids, longest stall ${worst.toFixed(1)} ms, machine factor ${factor.toFixed(2)}`,
    );
    expect(worst).toBeLessThan(50 * factor);
  });

  it.skipIf(path === undefined).each(Object.keys(INPUTS))('of %s takes time in proportion', (input) => {
    const tokenizer = createTokenizer(metadataOfFile(path!));
    const time = (units: number) => {
      const text = INPUTS[input]!(units);
      const runs = Array.from({ length: 3 }, () => {
        const start = performance.now();
        tokenizer.encode(text, { parseSpecial: false });
        return performance.now() - start;
      });
      return Math.min(...runs);
    };
    const [quarter, whole] = [time(256 * KIB), time(1024 * KIB)];
    console.log(`${name}, ${input}: 256 KiB ${quarter.toFixed(1)} ms, 1 MiB ${whole.toFixed(1)} ms`);
    expect(whole / quarter).toBeLessThanOrEqual(6);
  });
});
