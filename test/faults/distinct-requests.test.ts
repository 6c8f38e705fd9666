import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Metadata, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  ChatInput,
  ChatMessage,
  GenerateRequest,
  type GenerateResponse,
  Tool,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { request } from '../support/gateway.js';
import { runs } from '../support/run-size.js';

/** Requests of a kind, as many before memory is measured for the first time as after. */
const REQUESTS = 2 * runs(100, 20);
/** Megabytes by which the process may grow in the second half beside its grammar threads: the young heaps of three threads, of 16 MB each. */
const MOST_GROWTH_MB = 48;
/** Megabytes of tries, automata, masks and grammars, whose bounds are 32, 16 and 16 MiB and 512 masks. */
const MOST_GRAMMARS_MB = 80;
/** Clients at once. */
const CLIENTS = 4;

const text = 'the fox';
const repeated = <T>(count: number, item: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => item(i));
/** So many letters that no other request has. */
const letters = (i: number, count: number) => `${i.toString(36)}_`.repeat(Math.ceil(count / 2)).slice(0, count);

type Parts = Parameters<typeof request>[0];
const constraint = (kind: NonNullable<NonNullable<Parts['constraint']>['kind']>): Parts => ({
  text,
  constraint: { kind },
});
const chat = (parts: Partial<ChatInput>): Parts => {
  const messages = [ChatMessage.fromPartial({ role: 'user', content: 'the' })];
  return { input: { $case: 'chat', value: ChatInput.fromPartial({ messages, ...parts }) } };
};
const schemaOf = (i: number, properties: number) =>
  JSON.stringify({
    type: 'object',
    properties: Object.fromEntries(
      repeated(properties, (j) => [`${letters(i, 8)}${j}`, { type: 'string', maxLength: 40 + (i % 100) }]),
    ),
  });

/** Requests of which each is legal, and different from all before it in what a gateway could keep of it. */
const KINDS: Record<string, (i: number) => Parts> = {
  'small schemas': (i) => constraint({ $case: 'jsonSchema', value: schemaOf(i, 3) }),
  'schemas of 8 KB': (i) => constraint({ $case: 'jsonSchema', value: schemaOf(i, 120) }),
  choices: (i) => constraint({ $case: 'choice', value: { options: repeated(200, (j) => `${letters(i, 20)} ${j}`) } }),
  'regular expressions': (i) => constraint({ $case: 'regex', value: `(${letters(i, 200)}|[a-z]{1,${1 + (i % 90)}})+` }),
  'Unicode classes': (i) => constraint({ $case: 'regex', value: `\\p{Lu}{${1 + (i % 50)}}${letters(i, 10)}` }),
  grammars: (i) => constraint({ $case: 'grammar', value: `root ::= "${letters(i, 2000)}" [a-z]*` }),
  'template variables of 64 KB': (i) =>
    chat({ templateVariablesJson: JSON.stringify({ [`v${i}`]: letters(i, 65_000) }) }),
  'tools of 30 KB': (i) =>
    chat({
      tools: repeated(10, (j) =>
        Tool.fromPartial({ name: `f${i}_${j}`, description: letters(i, 2000), parametersJson: schemaOf(i, 15) }),
      ),
    }),
  'strict tools': (i) =>
    chat({ tools: [Tool.fromPartial({ name: `f${i}`, strict: true, parametersJson: schemaOf(i, 3) })] }),
  'stop strings': (i) => ({ text, stop: { strings: repeated(64, (j) => `${letters(i, 12)}${j}`) } }),
  'biases of texts': (i) => ({
    text,
    sampling: { textBias: Object.fromEntries(repeated(250, (j) => [`${letters(i, 100)}${j}`, 1])) },
  }),
  'prompts of words never seen': (i) => ({ text: repeated(300, (j) => `${letters(i, 9)}${j}`).join(' ') }),
  'model names': (i) => ({ text, model: letters(i, 256) }),
  'request ids': (i) => ({ text, requestId: letters(i, 128) }),
  principals: (i) => constraint({ $case: 'choice', value: { options: [letters(i, 20)] } }),
};

/** Headers of a request: behind a proxy each address is a principal of its own. */
const HEADERS: Record<string, (i: number) => Record<string, string>> = {
  principals: (i) => ({ 'x-forwarded-for': `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}` }),
};

const gc = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
})();

let server: FakeGateway;
beforeAll(async () => {
  const chatTemplate =
    '{% if tools %}<tool_call>{% endif %}{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}';
  server = await startFakeGateway({
    ...{ model: { contextLength: 4096, chatTemplate }, maxContext: 4096, stepMs: 0, trustedProxies: ['unix'] },
  });
});
afterAll(() => server?.stop());

/** Megabytes of the process behind a collection of garbage: gateway, its threads, and this test. */
function processMb(): number {
  gc();
  gc();
  return process.memoryUsage.rss() / 1e6;
}

/** Megabytes of grammars and what they share, as the metrics tell. */
async function grammarsMb(): Promise<number> {
  const text = await server.gateway.metrics.registry.metrics();
  const of = (name: string) => Number(new RegExp(`^rocmforge_grammar_${name}\\S* (\\S+)$`, 'm').exec(text)?.[1]);
  return (of('engine_bytes') + of('cache_bytes')) / 1e6;
}

/** @returns why a request was refused; undefined for one that was answered */
function answered(parts: Parts, headers: Record<string, string> = {}): Promise<string | undefined> {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const { stop, ...rest } = parts;
  const message = GenerateRequest.fromPartial(request({ stop: { maxTokens: 1, ...stop }, ...rest }));
  return new Promise((resolve) => {
    server.client.generate(message, metadata, (error: ServiceError | null, _response: GenerateResponse) =>
      resolve(error === null ? undefined : errorInfo(error)?.reason),
    );
  });
}

it.each(Object.entries(KINDS))('%s leave nothing behind, each different from the last', async (name, partsOf) => {
  const run = async (from: number, to: number) => {
    const reasons = new Set<string | undefined>();
    let next = from;
    const client = async () => {
      for (let i = next++; i < to; i = next++) reasons.add(await answered(partsOf(i), HEADERS[name]?.(i)));
    };
    await Promise.all(repeated(CLIENTS, client));
    return reasons;
  };
  const expected = name === 'model names' ? 'MODEL_NOT_FOUND' : undefined;
  expect(await run(0, REQUESTS / 2)).toEqual(new Set([expected]));
  const [before, grammarsBefore] = [processMb(), await grammarsMb()];
  expect(await run(REQUESTS / 2, REQUESTS)).toEqual(new Set([expected]));
  const grammars = await grammarsMb();
  const growth = processMb() - before - Math.max(0, grammars - grammarsBefore);
  console.log(
    `${name}: ${before.toFixed(0)} MB, ${growth.toFixed(1)} MB more behind ${REQUESTS / 2} more requests; grammars ${grammars.toFixed(0)} MB`,
  );
  expect(growth).toBeLessThan(MOST_GROWTH_MB);
  expect(grammars).toBeLessThan(MOST_GRAMMARS_MB);
});
