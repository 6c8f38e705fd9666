import { describe, expect, it } from 'vitest';
import { RequestOpener } from '../../../src/gateway/api/request-opener.js';
import type { CallContext } from '../../../src/gateway/request/encoding/text-threads.js';
import { RocmForgeError } from '../../../src/shared/errors.js';
import type { Constraint, GenerateStreamRequest } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { LargeRequest } from '../../../src/shared/grpc/strict.js';
import { smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { request } from '../../support/gateway.js';

const tokenizer = tokenizerOf(smallBpe());
const facts = { modelName: 'm', contextLength: 64, vocabularySize: 512, longestTokenBytes: 16, maxPriority: 0 };
const constraint: Constraint = { kind: { $case: 'regex', value: 'a+' } };
const PROMPT_IDS = Uint32Array.of(1, 2, 3);

/** Something that is under way until a test ends it. */
interface Work {
  finish(): void;
  fail(error: Error): void;
}

/** An answer that knows whether it was closed. */
function answerOf() {
  return {
    mask: undefined,
    ahead: [],
    isClosed: false,
    accept() {},
    listen() {},
    close() {
      this.isClosed = true;
    },
  };
}

/** A promise that the test settles. */
function deferred() {
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((_, fail) => {
    reject = fail;
  });
  promise.catch(() => undefined);
  return { promise, reject };
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
  const masks = deferred();
  const answer = answerOf();
  const opener = new RequestOpener({ name: 'm', facts, tokenizer }, encoder, runner, {
    begin: () => wait({ constraints: [answer], opened: masks.promise }),
  });
  const abort = new AbortController();
  const caller: CallContext = {
    principal: 'client',
    peer: 'there',
    trace: undefined,
    deadline: Number.POSITIVE_INFINITY,
    signal: abort.signal,
  };
  const open = (message: GenerateStreamRequest | LargeRequest, awaitsMasks = false) =>
    opener.open(message, caller, { isUnary: false, awaitsMasks });
  /** The nth piece of work, when it has begun. */
  const begun = async (n: number): Promise<Work> => {
    await expect.poll(() => work.length).toBe(n);
    return work[n - 1] as Work;
  };
  return { noted, abort, open, begun, masks, answer };
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

  it('is noted once while its grammar waits for a thread', async () => {
    const { noted, abort, open, begun } = start();
    const opened = open(request({ requestId: 'mine', text: 'a', constraint }));
    (await begun(1)).finish();
    const grammar = await begun(2);
    abort.abort();
    grammar.fail(gone());
    expect(await opened).toBeUndefined();
    expect(noted).toEqual([{ id: 'mine', outcome: 'cancelled', promptTokens: 3 }]);
  });
});

describe('a request whose client waits', () => {
  it('can run once its grammar is begun, whose masks may come later', async () => {
    const { noted, open, begun, masks, answer } = start();
    const opened = open(request({ requestId: 'mine', text: 'a', constraint }));
    (await begun(1)).finish();
    (await begun(2)).finish();
    const { context, parameters } = (await opened) ?? {};
    expect([context?.id, parameters?.promptIds]).toEqual(['mine', PROMPT_IDS]);
    expect([parameters?.constraints, parameters?.opened]).toEqual([[answer], masks.promise]);
    expect([noted, answer.isClosed]).toEqual([[], false]);
  });

  it('can run once its masks are there, if it must not be refused later', async () => {
    const { noted, open, begun, masks, answer } = start();
    let isOpened = false;
    const opened = open(request({ requestId: 'mine', text: 'a', constraint }), true).finally(() => {
      isOpened = true;
    });
    (await begun(1)).finish();
    (await begun(2)).finish();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(isOpened).toBe(false);
    masks.reject(new RocmForgeError('CONSTRAINT_UNSUPPORTED', 'no mask'));
    await expect(opened).rejects.toMatchObject({ reason: 'CONSTRAINT_UNSUPPORTED' });
    expect(noted).toEqual([{ id: 'mine', outcome: 'CONSTRAINT_UNSUPPORTED', promptTokens: 3 }]);
    expect(answer.isClosed).toBe(true);
  });

  it('is rejected with the error of its prompt, and noted with that of its grammar', async () => {
    const { noted, open, begun } = start();
    const first = open(request({ requestId: 'prompt', text: 'a' }));
    (await begun(1)).fail(new RocmForgeError('INVALID_FIELD', 'no token'));
    await expect(first).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
    const second = open(request({ requestId: 'grammar', text: 'a', constraint }));
    (await begun(2)).finish();
    (await begun(3)).fail(new RocmForgeError('CONSTRAINT_INVALID', 'no grammar'));
    await expect(second).rejects.toMatchObject({ reason: 'CONSTRAINT_INVALID' });
    expect(noted).toEqual([{ id: 'grammar', outcome: 'CONSTRAINT_INVALID', promptTokens: 3 }]);
  });
});
