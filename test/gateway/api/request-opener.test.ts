import { describe, expect, it } from 'vitest';
import { RequestOpener } from '../../../src/gateway/api/request-opener.js';
import type { CallContext } from '../../../src/gateway/request/encoding/text-threads.js';
import { RocmForgeError } from '../../../src/shared/errors.js';
import type { GenerateStreamRequest } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { LargeRequest } from '../../../src/shared/grpc/strict.js';
import { request } from '../../support/gateway.js';
import { smallBpe, tokenizerOf } from '../tokenizer/vocabularies.js';

const tokenizer = tokenizerOf(smallBpe());
const facts = { modelName: 'm', contextLength: 64, vocabularySize: 512, longestTokenBytes: 16, maxPriority: 0 };
const PROMPT_IDS = Uint32Array.of(1, 2, 3);

/** Something that is under way until a test ends it. */
interface Work {
  finish(): void;
  fail(error: Error): void;
}

/** An opener whose encoding and grammar wait for the test. */
function start() {
  const noted: { id: string; outcome: string; promptTokens: number }[] = [];
  const work: Work[] = [];
  const wait = <T>(value: T): Promise<T> =>
    new Promise((resolve, reject) => work.push({ finish: () => resolve(value), fail: reject }));
  const encoder = {
    encode: () => wait(PROMPT_IDS),
    openGeneration: () => wait({ request: request({ requestId: 'large' }), inputField: 'text', promptIds: PROMPT_IDS }),
    detokenize: () => wait('text'),
  };
  const runner = {
    notRun: ({ promptIds }: { readonly promptIds: Uint32Array }, { id }: { readonly id: string }, outcome: string) =>
      void noted.push({ id, outcome, promptTokens: promptIds.length }),
  };
  const opener = new RequestOpener({ name: 'm', facts, tokenizer }, encoder, runner, {
    openEach: () => wait(undefined),
  });
  const abort = new AbortController();
  const caller: CallContext = {
    principal: 'client',
    peer: 'there',
    trace: undefined,
    deadline: Number.POSITIVE_INFINITY,
    signal: abort.signal,
  };
  const open = (message: GenerateStreamRequest | LargeRequest) => opener.open(message, caller, { isUnary: false });
  /** The nth piece of work, when it has begun. */
  const begun = async (n: number): Promise<Work> => {
    await expect.poll(() => work.length).toBe(n);
    return work[n - 1] as Work;
  };
  return { noted, abort, open, begun };
}

const gone = () => new DOMException('the client has gone', 'AbortError');

describe('a request whose client goes before it runs', () => {
  it('is noted by its name while its prompt is encoded', async () => {
    const { noted, abort, open, begun } = start();
    const opened = open(request({ requestId: 'mine', text: 'a' }));
    const encoding = await begun(1);
    abort.abort();
    encoding.fail(gone());
    expect(await opened).toBeUndefined();
    expect(noted).toEqual([{ id: 'mine', outcome: 'cancelled', promptTokens: 0 }]);
  });

  it('is noted by a name of the gateway where its own is not known yet', async () => {
    const { noted, abort, open, begun } = start();
    const opened = open(new LargeRequest(new Uint8Array(100)));
    const encoding = await begun(1);
    abort.abort();
    encoding.fail(gone());
    expect(await opened).toBeUndefined();
    expect(noted).toEqual([{ id: expect.stringMatching(/^[0-9a-f-]{36}$/), outcome: 'cancelled', promptTokens: 0 }]);
  });

  it('is noted with its tokens when its prompt was encoded all the same', async () => {
    const { noted, abort, open, begun } = start();
    const opened = open(new LargeRequest(new Uint8Array(100)));
    const encoding = await begun(1);
    abort.abort();
    encoding.finish();
    expect(await opened).toBeUndefined();
    expect(noted).toEqual([{ id: 'large', outcome: 'cancelled', promptTokens: 3 }]);
  });

  it('is noted once while its grammar is compiled', async () => {
    const { noted, abort, open, begun } = start();
    const opened = open(request({ requestId: 'mine', text: 'a' }));
    (await begun(1)).finish();
    const grammar = await begun(2);
    abort.abort();
    grammar.fail(gone());
    expect(await opened).toBeUndefined();
    expect(noted).toEqual([{ id: 'mine', outcome: 'cancelled', promptTokens: 3 }]);
  });
});

describe('a request whose client waits', () => {
  it('can run once its grammar is there', async () => {
    const { noted, open, begun } = start();
    const opened = open(request({ requestId: 'mine', text: 'a' }));
    (await begun(1)).finish();
    (await begun(2)).finish();
    expect(await opened).toMatchObject({ context: { id: 'mine' }, parameters: { promptIds: PROMPT_IDS } });
    expect(noted).toEqual([]);
  });

  it('is rejected with the error of its prompt, and noted with that of its grammar', async () => {
    const { noted, open, begun } = start();
    const first = open(request({ requestId: 'prompt', text: 'a' }));
    (await begun(1)).fail(new RocmForgeError('INVALID_FIELD', 'no token'));
    await expect(first).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
    const second = open(request({ requestId: 'grammar', text: 'a' }));
    (await begun(2)).finish();
    (await begun(3)).fail(new RocmForgeError('CONSTRAINT_INVALID', 'no grammar'));
    await expect(second).rejects.toMatchObject({ reason: 'CONSTRAINT_INVALID' });
    expect(noted).toEqual([{ id: 'grammar', outcome: 'CONSTRAINT_INVALID', promptTokens: 3 }]);
  });
});
