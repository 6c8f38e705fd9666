import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import { writeRandomModel } from '../../../support/random-model.js';

/** Ids of words of the random vocabulary, which stand for the markers here. */
const [PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE] = [259, 260, 261, 262, 263] as const;
const key = (name: string): string => `tokenizer.ggml.fim_${name}_token_id`;
const MARKERS = { [key('pre')]: PREFIX, [key('suf')]: SUFFIX, [key('mid')]: MIDDLE };
const OPTIONS = { modelName: 'coder', httpListen: '127.0.0.1:0' };
const greedy = { n_predict: 8, temperature: 0, ignore_eos: true, return_tokens: true };

let plain: TestGateway;
let coder: TestGateway;
let files: TestGateway;
beforeAll(async () => {
  plain = await startTestGateway(writeRandomModel(), OPTIONS);
  coder = await startTestGateway(writeRandomModel({ metadata: MARKERS }), OPTIONS);
  files = await startTestGateway(
    writeRandomModel({ metadata: { ...MARKERS, [key('rep')]: REPOSITORY, [key('sep')]: FILE } }),
    OPTIONS,
  );
});
afterAll(async () => {
  for (const server of [plain, coder, files]) await server?.stop();
});

const idsOf = async (content: string): Promise<number[]> =>
  content === '' ? [] : (await ask(coder.gateway, '/tokenize', { content, parse_special: false })).json.tokens;
/** The tokens that llama.cpp's server makes of a prefix and a suffix; its BOS comes first. */
const promptOf = async (prefix: string, suffix: string) => [
  ...[1, PREFIX, ...(await idsOf(prefix))],
  ...[SUFFIX, ...(await idsOf(suffix)), MIDDLE],
];
const completed = async (prompt: readonly number[], { gateway } = coder) =>
  (await ask(gateway, '/completion', { prompt, ...greedy })).json;

describe('a gap in a text', () => {
  it('is filled by /infill as by the tokens of its prompt', async () => {
    const expected = await completed(await promptOf('the old foxran', ' to the sea'));
    const { json } = await ask(coder.gateway, '/infill', {
      ...{ input_prefix: 'the old fox', prompt: 'ran', input_suffix: ' to the sea', ...greedy },
    });
    expect([json.tokens, json.tokens_evaluated]).toEqual([expected.tokens, expected.tokens_evaluated]);
    const open = await ask(coder.gateway, '/infill', { input_prefix: '', input_suffix: '', ...greedy });
    expect(open.json.tokens).toEqual((await completed([1, PREFIX, SUFFIX, MIDDLE])).tokens);
  });

  it('is filled by `suffix` of OpenAI’s and Ollama’s completions', async () => {
    const expected = (await completed(await promptOf('the fox', 'ran'))).content;
    const { json } = await ask(coder.gateway, '/v1/completions', {
      ...{ model: 'coder', prompt: 'the fox', suffix: 'ran', max_tokens: 8, temperature: 0, ignore_eos: true },
    });
    expect(json.choices[0].text).toBe(expected);
    const ollama = await ask(coder.gateway, '/api/generate', {
      ...{
        model: 'coder',
        prompt: 'the fox',
        suffix: 'ran',
        stream: false,
        options: { num_predict: 8, temperature: 0 },
      },
    });
    expect(expected.startsWith(ollama.json.response)).toBe(true);
    expect((await ask(coder.gateway, '/api/show', { model: 'coder' })).json.capabilities).toContain('insert');
  });

  it('comes behind other files where the model knows them', async () => {
    const prompt = [
      ...[REPOSITORY, ...(await idsOf('myproject\n'))],
      ...[FILE, ...(await idsOf('a.ts\n')), ...(await idsOf('the sea'))],
      ...[FILE, ...(await idsOf('filename\n'))],
      ...(await promptOf('the fox', 'ran')),
    ];
    const { json } = await ask(files.gateway, '/infill', {
      ...{
        input_prefix: 'the fox',
        input_suffix: 'ran',
        input_extra: [{ filename: 'a.ts', text: 'the sea' }],
        ...greedy,
      },
    });
    const expected = await completed(prompt, files);
    expect([json.tokens, json.tokens_evaluated]).toEqual([expected.tokens, prompt.length]);
  });

  it('does not make markers of texts', async () => {
    const { json } = await ask(coder.gateway, '/infill', { input_prefix: '</s><s>', input_suffix: '', ...greedy });
    expect(json.tokens_evaluated).toBe((await promptOf('</s><s>', '')).length);
    expect((await idsOf('</s><s>')).length).toBeGreaterThan(2);
  });

  it('is rejected by name', async () => {
    const off = await ask(plain.gateway, '/infill', { input_prefix: 'a', input_suffix: 'b' });
    expect([off.status, off.json.error.message]).toEqual([
      400,
      expect.stringMatching(/^input_suffix is not supported by this model/),
    ]);
    const openai = await ask(plain.gateway, '/v1/completions', { prompt: 'a', suffix: 'b' });
    expect([openai.status, openai.json.error.param]).toEqual([400, 'suffix']);
    const missing = await ask(coder.gateway, '/infill', { input_prefix: 'a' });
    expect(missing.json.error.message).toBe('input_suffix is missing');
    const listed = await ask(coder.gateway, '/v1/completions', { prompt: ['a', 'b'], suffix: 'b' });
    expect(listed.json.error.message).toMatch(/^prompt is a list; it must be a string/);
  });
});
