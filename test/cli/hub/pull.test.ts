// One file because each test is one more way of one hub to misbehave, and they share that hub.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { ServerResponse } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HubPatience } from '../../../src/cli/hub/hub-requests.js';
import { hubSettings } from '../../../src/cli/hub/hub-settings.js';
import { listModels, type PulledModel, pullModel } from '../../../src/cli/hub/pull.js';
import { COMMIT, FakeHub, gitId, type HubRequest, type OfferedFile, sha256 } from '../../support/fake-hub.js';
import { Random } from '../../support/random.js';

/** As long as nobody is to wait for a test. */
const IMPATIENT: HubPatience = { silenceMs: 300, firstWaitMs: 1, attempts: 3, longestWaitMs: 5000 };

function noise(bytes: number, seed: number): Buffer {
  const random = new Random(seed);
  return Buffer.from(Uint8Array.from({ length: bytes }, () => random.below(256)));
}

const Q4 = { path: 'fox-Q4_K_M.gguf', content: noise(100_000, 1) };
const SPLIT = [1, 2, 3].map((part) => ({
  path: `Q8_0/fox-Q8_0-0000${part}-of-00003.gguf`,
  content: noise(40_000 + part, part + 1),
}));
const OFFERED: OfferedFile[] = [
  { path: 'README.md', content: Buffer.from('a fox'), isSmall: true },
  Q4,
  ...SPLIT,
  { path: 'mmproj-fox-F16.gguf', content: noise(500, 9) },
];

let hub: FakeHub;
let folder: string;
let notices: string[];

beforeEach(async () => {
  hub = await FakeHub.start(OFFERED);
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  notices = [];
});
afterEach(() => hub.close());

const settings = (env: Record<string, string> = {}) =>
  hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HOME: folder, ...env });
const pull = (name = 'hf.co/acme/fox-GGUF:Q4_K_M', env: Record<string, string> = {}): Promise<PulledModel> =>
  pullModel(name, { settings: settings(env), patience: IMPATIENT, notice: (text) => notices.push(text) });
const repository = () => path.join(folder, 'hub', 'models--acme--fox-GGUF');
const blobs = () => (existsSync(repository()) ? readdirSync(path.join(repository(), 'blobs')).sort() : []);

describe('a model that is pulled', () => {
  it('lies where Python looks for it: a blob by its sum, a name in the commit’s snapshot, a reference', async () => {
    const { path: file, commit } = await pull();
    expect(commit).toBe(COMMIT);
    expect(file).toBe(path.join(repository(), 'snapshots', COMMIT, Q4.path));
    expect(readlinkSync(file)).toBe(path.join('..', '..', 'blobs', sha256(Q4.content)));
    expect(readFileSync(file)).toEqual(Q4.content);
    expect(readFileSync(path.join(repository(), 'refs', 'main'), 'utf8')).toBe(COMMIT);
    expect(blobs()).toEqual([sha256(Q4.content)]);
    expect(existsSync(path.join(folder, 'hub', '.locks', 'models--acme--fox-GGUF', `${sha256(Q4.content)}.lock`))).toBe(
      true,
    );
  });

  it('does not come again', async () => {
    expect((await pull()).wasHere).toBe(false);
    const before = hub.contentRequests.length;
    expect((await pull()).wasHere).toBe(true);
    expect(hub.contentRequests.length).toBe(before);
  });

  it('in parts comes with all of them, side by side, and is its first part', async () => {
    const { path: file, bytes } = await pull('hf.co/acme/fox-GGUF:q8_0');
    expect(path.basename(file)).toBe('fox-Q8_0-00001-of-00003.gguf');
    expect(bytes).toBe(120_006);
    for (const part of SPLIT) {
      expect(readFileSync(path.join(path.dirname(file), path.basename(part.path)))).toEqual(part.content);
    }
  });

  it('is found by the name of its file, at a commit, and without asking a hub', async () => {
    const { path: file } = await pull(`hf.co/acme/fox-GGUF@${COMMIT}:${Q4.path}`);
    await pull();
    const asked = hub.requests.length;
    for (const name of ['hf.co/acme/fox-GGUF', `huggingface.co/acme/fox-GGUF@${COMMIT}:Q4_K_M`]) {
      expect(await pull(name, { HF_HUB_OFFLINE: '1' })).toMatchObject({ path: file, wasHere: true });
    }
    expect(hub.requests.length).toBe(asked);
    await expect(pull('hf.co/acme/fox-GGUF:Q8_0', { HF_HUB_OFFLINE: '1' })).rejects.toMatchObject({
      reason: 'MODEL_NOT_FOUND',
    });
    await expect(pull('hf.co/acme/other', { HF_HUB_OFFLINE: '1' })).rejects.toMatchObject({ reason: 'HUB_OFFLINE' });
  });

  it('is taken as it was pulled when the hub does not answer', async () => {
    const { path: file } = await pull();
    hub.interfere = (_request, response) => Boolean(response.writeHead(502).end());
    expect(await pull()).toMatchObject({ path: file, wasHere: true });
    expect(notices.at(-1)).toMatch(/HUB|502.*taking what was pulled before, commit c0ffee/);
  });

  it('of a small repository has git’s own sum', async () => {
    hub.files = [{ ...Q4, isSmall: true }];
    expect(readFileSync((await pull()).path)).toEqual(Q4.content);
    expect(blobs()).toEqual([gitId(Q4.content)]);
  });

  it('of which two processes pull the same at once comes once', async () => {
    const both = await Promise.all([pull(), pull()]);
    expect(both[0]?.path).toBe(both[1]?.path);
    expect(hub.contentRequests).toHaveLength(1);
    expect(notices.filter((text) => text.includes('another process'))).toHaveLength(1);
  });

  it('goes on from what somebody else left, whether it is of the file or not', async () => {
    const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
    mkdirSync(path.dirname(left), { recursive: true });
    writeFileSync(left, Q4.content.subarray(0, 60_000));
    await pull();
    expect(hub.contentRequests.map(({ range }) => range)).toEqual(['bytes=60000-99999']);
  });

  for (const [what, bytes] of [
    ['of another file', 60_000],
    ['of the file’s length', 100_000],
    ['longer than the file', 100_001],
  ] as const) {
    it(`comes anew where what was left is ${what}`, async () => {
      const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
      mkdirSync(path.dirname(left), { recursive: true });
      writeFileSync(left, noise(bytes, 77));
      expect(readFileSync((await pull()).path)).toEqual(Q4.content);
      expect(hub.contentRequests.at(-1)?.range).toBe('bytes=0-99999');
      expect(blobs()).toEqual([sha256(Q4.content)]);
    });
  }

  it('is only read where all of it is here, though nobody may write', async () => {
    const { path: file } = await pull();
    const locks = path.join(folder, 'hub', '.locks');
    rmSync(locks, { recursive: true });
    // Nothing could be made in its place.
    writeFileSync(locks, '');
    expect(await pull()).toMatchObject({ path: file, wasHere: true });
  });

  it('lies beside what is hidden or empty, which is passed over', async () => {
    const nothing = { path: 'empty-Q2_K.gguf', content: Buffer.alloc(0) };
    hub.files = [...OFFERED, { path: '._fox.Q4_K_M.gguf', content: Buffer.from('x') }, nothing];
    expect((await pull()).path).toMatch(/Q4_K_M/);
    const models = await listModels('hf.co/acme/fox-GGUF', { settings: settings() });
    expect(models.map(({ name }) => name)).toEqual(['Q4_K_M', 'Q8_0']);
  });

  it('comes from a hub that knows no ranges, from its beginning', async () => {
    hub.knowsRanges = false;
    const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
    mkdirSync(path.dirname(left), { recursive: true });
    writeFileSync(left, Q4.content.subarray(0, 60_000));
    expect(readFileSync((await pull()).path)).toEqual(Q4.content);
  });
});

describe('what a repository offers', () => {
  it('is listed smallest first, over several pages, without what is no model', async () => {
    hub.pageSize = 2;
    const models = await listModels('hf.co/acme/fox-GGUF', { settings: settings() });
    expect(models.map(({ name, bytes, files }) => [name, bytes, files.length])).toEqual([
      ['Q4_K_M', 100_000, 1],
      ['Q8_0', 120_006, 3],
    ]);
  });

  it('is named to who did not choose', async () => {
    await expect(pull('hf.co/acme/fox-GGUF')).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message: 'acme/fox-GGUF holds several quantizations; name one after a colon: Q4_K_M, Q8_0',
    });
    await expect(pull('hf.co/acme/fox-GGUF:Q2_K')).rejects.toMatchObject({
      reason: 'MODEL_NOT_FOUND',
      message: 'acme/fox-GGUF holds no "Q2_K"; there are Q4_K_M, Q8_0',
    });
  });

  it('has no model of which a part is missing', async () => {
    hub.files = OFFERED.filter(({ path: file }) => !file.includes('00002-of'));
    await expect(pull('hf.co/acme/fox-GGUF:Q8_0')).rejects.toMatchObject({ reason: 'MODEL_NOT_FOUND' });
  });
});

describe('a hub that misbehaves', () => {
  const onContent = (answer: Parameters<typeof answered>[0]) => answered(answer, ({ at }) => at === 'storage');
  const nothingTaken = () => {
    expect(blobs().filter((name) => !name.endsWith('.incomplete'))).toEqual([]);
    expect(existsSync(path.join(repository(), 'snapshots'))).toBe(false);
    expect(existsSync(path.join(repository(), 'refs'))).toBe(false);
  };

  it('gives another content than its sum says: CHECKSUM_MISMATCH, and nothing of it stays', async () => {
    hub.files = [{ ...Q4, sha256: sha256(Buffer.from('another')) }];
    await expect(pull()).rejects.toMatchObject({ reason: 'CHECKSUM_MISMATCH' });
    expect(blobs()).toEqual([]);
    nothingTaken();
  });

  it('wants a token: HUB_REFUSED says which variable', async () => {
    hub.interfere = answered((response) => response.writeHead(401).end());
    await expect(pull()).rejects.toMatchObject({
      reason: 'HUB_REFUSED',
      message: expect.stringContaining('set HF_TOKEN'),
    });
    expect(hub.requests).toHaveLength(1);
    nothingTaken();
  });

  it('hides a repository behind 401: MODEL_NOT_FOUND says that it may be private', async () => {
    hub.interfere = answered((response) => response.writeHead(401, { 'x-error-code': 'RepoNotFound' }).end());
    await expect(pull()).rejects.toMatchObject({
      reason: 'MODEL_NOT_FOUND',
      message: expect.stringContaining('HF_TOKEN'),
    });
  });

  it('keeps a gated model: HUB_REFUSED, with its own words', async () => {
    hub.interfere = answered((response) =>
      response.writeHead(403, { 'x-error-code': 'GatedRepo', 'x-error-message': 'ask first' }).end(),
    );
    await expect(pull()).rejects.toMatchObject({
      reason: 'HUB_REFUSED',
      message: expect.stringContaining('"ask first"'),
    });
  });

  it('is asked too often: as long as it says is waited, then it is asked again', async () => {
    let refused = 0;
    hub.interfere = (_request, response) => {
      if (refused++ > 0) return false;
      response.writeHead(429, { 'retry-after': '1' }).end();
      return true;
    };
    const began = performance.now();
    await pull();
    expect(performance.now() - began).toBeGreaterThanOrEqual(990);
    expect(notices[0]).toMatch(/answers 429.*asking again in 1 s/);
  });

  it.each([
    { 'retry-after': '86400' },
    { ratelimit: '"api";r=0;t=86400' },
    { 'retry-after': new Date(Date.now() + 86_400_000).toUTCString() },
  ])('has us wait for a day by %o: HUB_BUSY at once', async (headers) => {
    hub.interfere = answered((response) => response.writeHead(429, headers).end());
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_BUSY' });
    expect(hub.requests).toHaveLength(1);
  });

  it('stays too busy: HUB_BUSY after as many requests as are worth it', async () => {
    hub.interfere = answered((response) => response.writeHead(429).end());
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_BUSY' });
    expect(hub.requests).toHaveLength(IMPATIENT.attempts);
  });

  it('redirects for ever: HUB_PROTOCOL', async () => {
    hub.interfere = onContent((response, { path: at }) => response.writeHead(302, { location: at }).end());
    await expect(pull()).rejects.toMatchObject({
      reason: 'HUB_PROTOCOL',
      message: expect.stringContaining('more than 5'),
    });
    nothingTaken();
  });

  it.each(['file:///etc/passwd', 'ftp://127.0.0.1/x', 'http://['])(
    'redirects to %s: HUB_PROTOCOL',
    async (location) => {
      hub.interfere = onContent((response) => response.writeHead(302, { location }).end());
      await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
    },
  );

  it.each(['http://user@', 'http://user:secret@', 'http://:secret@'])(
    'redirects to %s…: HUB_PROTOCOL at the first request',
    async (prefix) => {
      let asked = 0;
      hub.interfere = onContent((response) => {
        asked += 1;
        response.writeHead(302, { location: `${prefix}127.0.0.1/x` }).end();
      });
      await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
      expect(asked).toBe(1);
    },
  );

  it('never makes us show the token to somebody else', async () => {
    await pull(undefined, { HF_TOKEN: 'hf_secret' });
    const shown = (at: string) => hub.requests.filter((request) => request.at === at).map((one) => one.authorization);
    expect(new Set(shown('hub'))).toEqual(new Set(['Bearer hf_secret']));
    expect(new Set(shown('storage'))).toEqual(new Set([undefined]));
    hub.interfere = answered(
      (response) => response.writeHead(200, { link: `<${hub.storage}/more>; rel="next"` }).end('[]'),
      ({ path: at }) => at.includes('/tree/'),
    );
    await expect(pull(undefined, { HF_TOKEN: 'hf_secret' })).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
    expect(hub.requests.filter(({ path: at }) => at === '/more')).toEqual([]);
  });

  it('breaks ranges off: what has come is kept, and the rest is asked for', async () => {
    let broken = 0;
    hub.afterBytes = (sent) => {
      if (broken === 3 || sent < 20_000 * (broken + 1)) return false;
      broken += 1;
      setTimeout(() => hub.breakOff(), 10);
      return true;
    };
    expect(readFileSync((await pull()).path)).toEqual(Q4.content);
    const starts = hub.contentRequests.map(({ range }) => Number(/=(\d+)/.exec(range ?? '')?.[1]));
    expect(starts).toHaveLength(4);
    expect([...starts].sort((a, b) => a - b)).toEqual(starts);
    expect(starts[1]).toBeGreaterThan(0);
  });

  it('breaks off with nothing sent, again and again: HUB_UNAVAILABLE', async () => {
    hub.interfere = onContent((response) => response.socket?.destroy());
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_UNAVAILABLE' });
    nothingTaken();
  });

  it('goes silent in the middle: HUB_UNAVAILABLE', async () => {
    hub.afterBytes = (sent) => sent >= 50_000;
    hub.interfere = ({ at }) => at === 'storage' && hub.bytesSent >= 50_000;
    await expect(pull()).rejects.toMatchObject({
      reason: 'HUB_UNAVAILABLE',
      message: expect.stringMatching(/does not answer: it was silent for too long$/),
    });
    nothingTaken();
  });

  it.each([
    ['another range', { 'content-range': 'bytes 5-99999/100000' }, 206],
    ['a file of another length', { 'content-range': 'bytes 0-99999/100001' }, 206],
    ['no range at all', {}, 206],
    ['that there is no such range', {}, 416],
  ])('answers with %s: HUB_PROTOCOL', async (_what, headers, status) => {
    hub.interfere = onContent((response) => response.writeHead(status, headers as Record<string, string>).end('x'));
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
    nothingTaken();
  });

  it('sends a page of somebody on the way in place of the rest: HUB_PROTOCOL, and what has come is kept', async () => {
    const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
    mkdirSync(path.dirname(left), { recursive: true });
    writeFileSync(left, Q4.content.subarray(0, 60_000));
    hub.interfere = onContent((response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>sign in</html>'),
    );
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
    expect(readFileSync(left)).toEqual(Q4.content.subarray(0, 60_000));
    hub.interfere = () => false;
    await pull();
    expect(hub.contentRequests.at(-1)?.range).toBe('bytes=60000-99999');
  });

  it('knows neither ranges nor lengths: what has come is not written again', async () => {
    const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
    mkdirSync(path.dirname(left), { recursive: true });
    writeFileSync(left, Q4.content.subarray(0, 60_000));
    hub.interfere = onContent((response) => {
      response.writeHead(200, { 'transfer-encoding': 'chunked' });
      return response.end(Q4.content);
    });
    expect(readFileSync((await pull()).path)).toEqual(Q4.content);
    expect(hub.contentRequests).toHaveLength(1);
  });

  it('lists for ever: HUB_PROTOCOL', async () => {
    hub.interfere = ({ path: asked }, response) => {
      if (!asked.includes('/tree/')) return false;
      const next = `<${hub.endpoint}${asked}>; rel="next"`;
      response.writeHead(200, { 'content-type': 'application/json', link: next }).end('[]');
      return true;
    };
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL', message: expect.stringContaining('pages') });
  });

  it('sends more than the file has: HUB_PROTOCOL', async () => {
    hub.interfere = onContent((response) =>
      response.writeHead(206, { 'content-range': 'bytes 0-99999/100000' }).end(Buffer.alloc(100_001)),
    );
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
    nothingTaken();
  });

  it.each(['../../escaped.gguf', '/etc/x.gguf', 'a//b.gguf', '..gguf/../x.gguf', 'a\\b.gguf', 'a\x1b[2J.gguf'])(
    'lists a file %j: HUB_PROTOCOL',
    async (file) => {
      hub.files = [{ path: file, content: Buffer.from('x') }];
      await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  it.each([
    ['a sum that is a path', { lfs: { oid: '../../../x', size: 1 } }],
    ['a size that is none', { lfs: { oid: sha256(Q4.content), size: -1 } }],
    ['a text for a size', { lfs: { oid: sha256(Q4.content), size: '1' } }],
    ['no sum', { oid: undefined }],
  ])('lists %s: HUB_PROTOCOL', async (_what, entry) => {
    hub.interfere = answered(
      (response) => response.end(JSON.stringify([{ type: 'file', path: 'x.gguf', size: 1, ...entry }])),
      ({ path: at }) => at.includes('/tree/'),
    );
    await expect(pull()).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
  });

  it.each(['<html>', '{}', 'null', '[null]', '[{"type":"file","path":5}]'])(
    'answers %j for a listing: HUB_PROTOCOL, or no model',
    async (body) => {
      hub.interfere = answered(
        (response) => response.end(body),
        ({ path: at }) => at.includes('/api/'),
      );
      await expect(pull()).rejects.toMatchObject({ reason: expect.stringMatching(/^(HUB_PROTOCOL|MODEL_NOT_FOUND)$/) });
    },
  );

  it('may not make us write through a link that lies in the cache', async () => {
    const victim = path.join(folder, 'victim');
    writeFileSync(victim, 'mine');
    const left = path.join(repository(), 'blobs', `${sha256(Q4.content)}.incomplete`);
    mkdirSync(path.dirname(left), { recursive: true });
    symlinkSync(victim, left);
    await expect(pull()).rejects.toMatchObject({ reason: 'INVALID_OPTION' });
    expect(readFileSync(victim, 'utf8')).toBe('mine');
  });
});

/** An interference that gives one answer to the requests that are meant. */
function answered(
  answer: (response: ServerResponse, request: HubRequest) => unknown,
  isMeant: (request: HubRequest) => boolean = () => true,
): FakeHub['interfere'] {
  return (request, response) => {
    if (!isMeant(request)) return false;
    answer(response, request);
    return true;
  };
}
