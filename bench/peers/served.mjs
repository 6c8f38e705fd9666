/**
 * Load on an OpenAI-compatible HTTP server, ROCmForge's or another one: streamed completions of random token ids, a closed loop in
 * which each client has one request at a time. One table row per number of clients. To compare servers, run it against each of them
 * on the same machine with the same model, one after the other:
 *
 *   rocmforge serve --model M.gguf --http-listen 127.0.0.1:8080 --max-context 1024 --max-sequences 128
 *   llama-server -m M.gguf -ngl 99 -fa 1 -np 128 -c 131072 --port 8081
 *   node bench/peers/served.mjs --url http://127.0.0.1:8080 [--model NAME] [--clients 1,8,64,128] [--requests 6] [--prompts 128:512]
 *       [--tokens 128] [--first-token 300] [--last-token ID] [--seed 1] [--json]
 *
 * `requests` are per client: 1,206 with the defaults; on a CPU use `--clients 1,8`, and give both servers room for 8
 * (`--max-sequences 8`, `-np 8 -c 8192`, no `-ngl`). Prompts are random ids from `--first-token`, behind the special ones. The last token of prompts is 30,000, or the
 * vocabulary's last one if `/v1/models` reports a smaller vocabulary. A key comes from OPENAI_API_KEY. Ends with code 1 when a request fails or returns another number of tokens.
 */
import { benchArguments } from '../arguments.mjs';

const { values: options } = benchArguments(
  import.meta.url,
  {
    options: {
      url: { type: 'string' },
      model: { type: 'string' },
      clients: { type: 'string', default: '1,8,64,128' },
      requests: { type: 'string', default: '6' },
      prompts: { type: 'string', default: '128:512' },
      tokens: { type: 'string', default: '128' },
      'first-token': { type: 'string', default: '300' },
      'last-token': { type: 'string' },
      seed: { type: 'string', default: '1' },
      json: { type: 'boolean', default: false },
    },
  },
  ['url'],
);
const headers = {
  'content-type': 'application/json',
  ...(process.env.OPENAI_API_KEY && { authorization: `Bearer ${process.env.OPENAI_API_KEY}` }),
};
const tokens = Number(options.tokens);
const [leastPrompt = 0, mostPrompt = leastPrompt] = options.prompts.split(':').map(Number);
const firstToken = Number(options['first-token']);
const lastToken = Number(options['last-token'] ?? Math.min(30_000, (await vocabularySize()) - 1));

/** Tokens of the model's vocabulary; infinite where the server does not report it. */
async function vocabularySize() {
  const response = await fetch(`${options.url}/v1/models`, { headers }).catch(() => undefined);
  const models = response?.ok ? (await response.json()).data : [];
  const model = models?.find(({ id }) => id === options.model) ?? models?.[0];
  return model?.meta?.n_vocab ?? Number.POSITIVE_INFINITY;
}

/** Numbers below `limit` that depend on the seed only, so that every server gets the same requests. */
function randomOf(seed) {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Milliseconds of the first chunk and between chunks, and the tokens that the server counted. */
async function request(prompt) {
  const began = performance.now();
  const response = await fetch(`${options.url}/v1/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      ...(options.model === undefined ? {} : { model: options.model }),
      ...{ prompt, max_tokens: tokens, temperature: 0, ignore_eos: true },
      ...{ stream: true, stream_options: { include_usage: true } },
    }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  const at = [];
  let usage;
  let rest = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      const event = JSON.parse(line.slice('data: '.length));
      if (event.error !== undefined) throw new Error(JSON.stringify(event.error));
      if ((event.choices?.length ?? 0) > 0) at.push(performance.now());
      usage = event.usage ?? usage;
    }
  }
  const gaps = at.slice(1).map((time, i) => time - at[i]);
  return { first: at[0] - began, gaps, completion: usage?.completion_tokens, prompt: usage?.prompt_tokens };
}

const sorted = (values) => values.toSorted((a, b) => a - b);
const quantile = (values, share) => sorted(values)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;

async function measure(clients) {
  const random = randomOf(Number(options.seed));
  const prompts = Array.from({ length: clients * Number(options.requests) }, () =>
    Array.from(
      { length: leastPrompt + random(mostPrompt - leastPrompt + 1) },
      () => firstToken + random(lastToken - firstToken + 1),
    ),
  );
  const results = [];
  const began = performance.now();
  await Promise.all(
    Array.from({ length: clients }, async () => {
      for (let prompt = prompts.pop(); prompt !== undefined; prompt = prompts.pop())
        results.push(await request(prompt));
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const wrong = results.filter(({ completion }) => completion !== tokens).length;
  if (wrong > 0) throw new Error(`${wrong} of ${results.length} requests did not return ${tokens} tokens`);
  const sum = (name) => results.reduce((total, result) => total + (result[name] ?? 0), 0);
  const firsts = results.map(({ first }) => first);
  return {
    clients,
    tokensPerSecond: sum('completion') / seconds,
    promptTokensPerSecond: sum('prompt') / seconds,
    firstTokenMs: [quantile(firsts, 0.5), quantile(firsts, 0.99)],
    gapMs: quantile(
      results.flatMap(({ gaps }) => gaps),
      0.99,
    ),
  };
}

if (!options.json)
  console.log(
    '| clients | tok/s | prompt tok/s | first token ms, p50 / p99 | gap ms, p99 |\n| --- | --- | --- | --- | --- |',
  );
for (const clients of options.clients.split(',').map(Number)) {
  const row = await measure(clients).catch((error) => {
    console.error(`served: ${error.message}${error.cause === undefined ? '' : `: ${error.cause.message}`}`);
    process.exit(1);
  });
  const { tokensPerSecond, promptTokensPerSecond, firstTokenMs, gapMs } = row;
  const rounded = [tokensPerSecond, promptTokensPerSecond].map((value) => Math.round(value).toLocaleString('en'));
  const first = firstTokenMs.map(Math.round).join(' / ');
  console.log(
    options.json ? JSON.stringify(row) : `| ${clients} | ${rounded.join(' | ')} | ${first} | ${gapMs.toFixed(1)} |`,
  );
}
