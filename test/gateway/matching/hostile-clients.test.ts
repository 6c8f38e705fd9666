import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Metadata, type ServiceError } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import type { GenerateStreamResponse } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../../src/shared/grpc/status.js';
import type { FakeExecutor } from '../../doubles/fake-executor.js';
import { FAKE_VOCABULARY, type FakeGateway, spelled, startFakeGateway } from '../../support/fake-gateway.js';
import { request } from '../../support/gateway.js';
import { typed } from '../../support/gguf-builder.js';
import { Random } from '../../support/random.js';
import { isFull } from '../../support/run-size.js';

/** By client, a grammar whose texts have exponentially many derivations: a mask takes longer with each token. */
const HOSTILE: Readonly<Record<string, string>> = {
  mallory: 'root ::= p "QA"\np ::= [a-z ] p [a-z ] | [a-z ] p | p [a-z ] | [a-z ]',
  trudy: 'root ::= s "QB"\ns ::= s s | [a-z ]',
};
const CLIENTS = ['alice', 'bob', ...Object.keys(HOSTILE)];
/** So long that other processes of this machine make few masks late. */
const STEP_MS = 40;
const WORDS = 2000;
const VICTIM_TOKENS = 150;
/** Share of its rate alone. */
const LEAST_SHARE = 0.8;
/** Requests of the victim, one after the other. */
const REQUESTS = 3;
/** Completions of a hostile request. */
const COMPLETIONS = 7;

const bearing = (client: string): Metadata => {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer of-${client}`);
  return metadata;
};

const VICTIM = request({
  text: 'the fox',
  stop: { maxTokens: VICTIM_TOKENS },
  constraint: { kind: { $case: 'regex', value: `[a-z ]{${VICTIM_TOKENS}}` } },
});

/** Bytes, and words as vocabularies have them: a mask of an ambiguous grammar looks at each. */
function vocabulary(): string[] {
  const random = new Random(2);
  const words = new Set<string>();
  while (words.size < WORDS) {
    words.add(Array.from({ length: 1 + random.below(7) }, () => String.fromCharCode(97 + random.below(26))).join(''));
  }
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  return ['<unk>', '<s>', '</s>', ...bytes, ...words];
}

async function start(): Promise<FakeGateway> {
  const tokenFile = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tokens');
  const hash = (token: string) => createHash('sha256').update(token).digest('hex');
  writeFileSync(tokenFile, CLIENTS.map((client) => `${client} sha256:${hash(`of-${client}`)}\n`).join(''));
  const [a = 0] = spelled('a');
  const random = new Random(1);
  const tokens = vocabulary();
  const metadata = {
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': typed.arrayOf(
      typed.f32,
      tokens.map((_, i) => -i),
    ),
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      tokens.map((_, i) => (i < 3 ? 3 : i < 259 ? 6 : 1)),
    ),
  };
  return startFakeGateway({
    model: { metadata, paddedRows: tokens.length - FAKE_VOCABULARY.size },
    vocabulary: { first: 259, size: tokens.length },
    tokenFile,
    // Letters that no prompt lookup drafts.
    script: Array.from({ length: 4000 }, () => a + random.below(26)),
    stepMs: STEP_MS,
    maxSequences: 32,
    maxContext: 4096,
    kvBlocks: 4000,
  });
}

/** A stream: its tokens, and at which step of the executor the last of them came. */
function streamed({ client, executor }: FakeGateway, from: string, message: ReturnType<typeof request>) {
  const call = client.generateStream(message, bearing(from));
  const seen = { tokens: 0, lastStep: 0 };
  const over = new Promise<string | undefined>((resolve) => {
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case !== 'chunk') return;
      seen.lastStep = stepsOf(executor);
      seen.tokens += event.value.tokenIds.length;
    });
    call.on('error', (error: ServiceError) => resolve(errorInfo(error)?.reason ?? error.message));
    call.on('end', () => resolve(undefined));
  });
  return { call, seen, over };
}

const stepsOf = ({ device }: FakeExecutor): number => device?.steps ?? 0;

/** Tokens of the victim in each step of the executor, which goes on without it. */
async function rateOfVictim(server: FakeGateway, requests: number): Promise<number> {
  let [tokens, steps] = [0, 0];
  for (let i = 0; i < requests; i++) {
    const firstStep = stepsOf(server.executor);
    const { seen, over } = streamed(server, 'alice', VICTIM);
    expect(await over).toBeUndefined();
    expect(seen.tokens).toBe(VICTIM_TOKENS);
    tokens += seen.tokens;
    steps += seen.lastStep - firstStep;
  }
  return tokens / steps;
}

/** Sends a client's requests, one after the other, until the test ends. @returns why they ended */
async function attack(server: FakeGateway, client: string, grammar: string, end: AbortSignal): Promise<Set<string>> {
  const reasons = new Set<string>();
  while (!end.aborted) {
    const message = request({
      text: 'the',
      n: COMPLETIONS,
      stop: { maxTokens: 900 },
      constraint: { kind: { $case: 'grammar', value: grammar } },
    });
    const { call, over } = streamed(server, client, message);
    const cancel = () => call.cancel();
    end.addEventListener('abort', cancel);
    reasons.add((await over) ?? 'none');
    end.removeEventListener('abort', cancel);
  }
  return reasons;
}

// test/gateway/matching/mask-fairness.test.ts says the same of the queue, in virtual time.
it.runIf(isFull)('two hostile clients with ambiguous grammars leave a third at least 80 % of its rate', async () => {
  const server = await start();
  const end = new AbortController();
  try {
    const free = streamed(server, 'bob', request({ text: 'the', stop: { maxTokens: 4000, ignoreEos: true } }));
    const before = await rateOfVictim(server, 2);
    const attacks = Object.entries(HOSTILE).map(([client, grammar]) => attack(server, client, grammar, end.signal));
    const beside = await rateOfVictim(server, REQUESTS);
    end.abort();
    const reasons = (await Promise.all(attacks)).map((each) => [...each]);
    // On both sides of the attack: other processes of this machine make masks late, too.
    const alone = (before + (await rateOfVictim(server, 2))) / 2;
    console.log(`tokens a step: alone ${alone.toFixed(2)}, beside them ${beside.toFixed(2)}; they ended by ${reasons}`);
    expect(beside).toBeGreaterThanOrEqual(LEAST_SHARE * alone);
    expect(server.executor.failure).toBeUndefined();
    free.call.cancel();
    await free.over;
  } finally {
    end.abort();
    await server.stop();
  }
});
