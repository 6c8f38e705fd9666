import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hubSettings } from '../../../src/cli/hub/hub-settings.js';
import { pullModel } from '../../../src/cli/hub/pull.js';
import { withRemoteHeaders } from '../../../src/cli/hub/remote-headers.js';
import { fitHeaders, fitReport } from '../../../src/cli/inspect/fit.js';
import {
  formatInspectReport,
  type InspectReport,
  inspectHeaders,
  inspectModel,
} from '../../../src/cli/inspect/inspect.js';
import { packageRoot } from '../../../src/shared/package.js';
import { runProgram } from '../../support/command-line.js';
import { FakeHub, type OfferedFile } from '../../support/fake-hub.js';
import { GgufBuilder } from '../../support/gguf-builder.js';
import { randomModel } from '../../support/random-model.js';
import { partName } from '../../support/split-model.js';

const IMPATIENT = { silenceMs: 300, firstWaitMs: 1, attempts: 3, longestWaitMs: 5000 };
const MIB = 1 << 20;
const NAME = 'hf.co/acme/fox-GGUF';

/** Much more of weights than of a header, and a table of RoPE's divisors behind them. */
const divisors = { length: 8, mean: 3 };
const large = () =>
  randomModel({ layers: 40 }).tensor('rope_freqs.weight', {
    type: 'F32',
    dims: [divisors.length],
    data: new Uint8Array(new Float32Array(divisors.length).fill(divisors.mean).buffer),
  });
const WHOLE: OfferedFile = { path: 'fox-F32.gguf', content: Buffer.from(large().build()) };
const PARTS: OfferedFile[] = randomModel({ layers: 12 })
  .split(3)
  .map((part, i) => ({ path: `F16/${partName(i + 1, 3, 'fox-F16')}`, content: Buffer.from(part.build()) }));

let hub: FakeHub;
let folder: string;

beforeEach(async () => {
  hub = await FakeHub.start([WHOLE, ...PARTS]);
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
});
afterEach(() => hub.close());

const options = (env: Record<string, string> = {}) => ({
  settings: hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HOME: folder, ...env }),
  patience: IMPATIENT,
  notice: () => undefined,
});
const inspect = (name: string, env?: Record<string, string>): Promise<InspectReport> =>
  withRemoteHeaders(name, (headers) => inspectHeaders(name, headers), options(env));

/** The report on the same model from a file, under the names of the hub's. */
async function pulled(name: string): Promise<InspectReport> {
  const { path: file } = await pullModel(name, { ...options(), progress: () => undefined });
  const report = inspectModel(file);
  return {
    ...report,
    path: name,
    parts: report.parts.map((part) => {
      const own = hub.files.find((offered) => path.basename(offered.path) === path.basename(part.path));
      return { ...part, path: `acme/fox-GGUF/${own?.path}` };
    }),
  };
}

describe('a model of a hub is described from its headers', () => {
  it('as its file is, tables of RoPE included, by few requests for a part of it', async () => {
    const name = `${NAME}:F32`;
    const report = await inspect(name);
    expect(report.problem).toBeNull();
    expect(report.ropes[0]?.tables[0]?.values).toEqual(Array(divisors.length).fill(divisors.mean));
    expect(formatInspectReport(report)).toMatch(/^loads {10}yes$/m);
    expect(hub.contentRequests.length).toBeLessThanOrEqual(2);
    expect(hub.bytesSent).toBeLessThanOrEqual(2 * MIB + 4096);
    expect(hub.bytesSent).toBeLessThan(WHOLE.content.length / 2);
    expect(report).toEqual(await pulled(name));
  });

  it('in parts, of which each is read no further than its header', async () => {
    const name = `${NAME}:F16`;
    const report = await inspect(name);
    expect(report.parts.map(({ path: part }) => part)).toEqual(PARTS.map(({ path: part }) => `acme/fox-GGUF/${part}`));
    expect(hub.contentRequests.map(({ range }) => range)).toEqual(
      PARTS.map(({ content }, i) => `bytes=0-${Math.min(i === 0 ? 2 * MIB : MIB / 4, content.length) - 1}`),
    );
    expect(report).toEqual(await pulled(name));
  });

  it('with a header larger than the first request, by requests that double', async () => {
    const tokens = Array.from({ length: 200_000 }, (_, id) => `token ${id} of a vocabulary of many`);
    const builder = randomModel({ layers: 12 }).set('general.tags', tokens);
    hub.files = [{ path: 'fox-F32.gguf', content: Buffer.from(builder.build()) }];
    const report = await inspect(NAME);
    expect(report.problem).toBeNull();
    const ranges = hub.contentRequests.map(({ range }) => range);
    expect(ranges.slice(0, 3)).toEqual([
      `bytes=0-${2 * MIB - 1}`,
      `bytes=${2 * MIB}-${4 * MIB - 1}`,
      `bytes=${4 * MIB}-${8 * MIB - 1}`,
    ]);
    expect(report).toEqual(await pulled(NAME));
  });

  it('with the reason for which it does not load', async () => {
    const other = new GgufBuilder().set('general.architecture', 'mamba').set('mamba.block_count', 2);
    hub.files = [{ path: 'fox-F32.gguf', content: Buffer.from(other.build()) }];
    const report = await inspect(NAME);
    expect(formatInspectReport(report)).toMatch(/^loads +no: /m);
    const unknown = randomModel().set('tokenizer.ggml.model', 'of-another-kind');
    hub.files = [{ path: 'fox-F32.gguf', content: Buffer.from(unknown.build()) }];
    expect((await inspect(NAME)).problem).toMatch(/tokenizer model "of-another-kind" is not supported/);
    hub.files = [{ path: 'fox-F32.gguf', content: Buffer.from('a page of something else, as long as this is') }];
    await expect(inspect(NAME)).rejects.toMatchObject({ reason: 'GGUF_INVALID' });
  });

  it('with what fits', async () => {
    const name = `${NAME}:F32`;
    const question = { kvCacheType: 'f16', memory: 400 * MIB, context: 256 } as const;
    const remote = await withRemoteHeaders(name, (headers) => fitHeaders(name, headers, question), options());
    const { path: file } = await pullModel(name, { ...options(), progress: () => undefined });
    expect(remote).toEqual({ ...(await fitReport(file, question)), path: name });
    expect(remote.withoutLimit.weightBytes).toBeGreaterThan(WHOLE.content.length / 2);
  });
});

describe('a hub that misbehaves', () => {
  it('and sends no ranges is read no further than the header', async () => {
    hub.knowsRanges = false;
    expect((await inspect(`${NAME}:F32`)).problem).toBeNull();
  });

  it('and breaks off is asked again, then reported', async () => {
    let broken = 0;
    hub.afterBytes = () => {
      if (broken >= 2) return false;
      broken += 1;
      hub.breakOff();
      return true;
    };
    expect((await inspect(`${NAME}:F32`)).problem).toBeNull();
    expect(broken).toBe(2);
    hub.afterBytes = () => {
      hub.breakOff();
      return true;
    };
    await expect(inspect(`${NAME}:F32`)).rejects.toMatchObject({ reason: 'HUB_UNAVAILABLE' });
  });

  it('and falls silent is not waited for', async () => {
    hub.afterBytes = () => true;
    await expect(inspect(`${NAME}:F32`)).rejects.toMatchObject({ reason: 'HUB_UNAVAILABLE' });
  });

  it.each<[string, (range: string, size: number) => Record<string, string>]>([
    ['another range', (_range, size) => ({ 'content-range': `bytes 5-9/${size}` })],
    ['a file of another size', (range, size) => ({ 'content-range': `bytes ${range}/${size + 1}` })],
    ['no range', () => ({})],
  ])('and sends %s is refused', async (_what, headers) => {
    hub.interfere = ({ at, range }, response) => {
      if (at !== 'storage') return false;
      response.writeHead(206, headers(range?.replace('bytes=', '') ?? '', WHOLE.content.length)).end('GGUF ');
      return true;
    };
    await expect(inspect(`${NAME}:F32`)).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
  });

  it('and sends more than was asked for is refused', async () => {
    hub.interfere = ({ at, range }, response) => {
      if (at !== 'storage') return false;
      const told = { 'content-range': `${range?.replace('=', ' ')}/${WHOLE.content.length}` };
      response.writeHead(206, told).end(Buffer.alloc(3 * MIB));
      return true;
    };
    await expect(inspect(`${NAME}:F32`)).rejects.toMatchObject({ reason: 'HUB_PROTOCOL' });
  });
});

describe('without a hub', () => {
  it('a model that was pulled is described from its file, another is refused', async () => {
    const name = `${NAME}:F32`;
    const { path: file } = await pullModel(name, { ...options(), progress: () => undefined });
    const before = hub.requests.length;
    expect(await inspect(name, { HF_HUB_OFFLINE: '1' })).toEqual({ ...inspectModel(file), path: name });
    expect(hub.requests.length).toBe(before);
    await expect(inspect(`${NAME}:F16`, { HF_HUB_OFFLINE: '1' })).rejects.toMatchObject({ reason: 'MODEL_NOT_FOUND' });
  });
});

it('the command writes the report, and names the quantizations where there are several', async () => {
  const run = (model: string) => {
    const command = [path.join(packageRoot, 'dist', 'cli', 'main.js'), 'inspect', model];
    return runProgram(process.execPath, command, '', { HF_ENDPOINT: hub.endpoint, HF_HOME: folder });
  };
  const { code, stdout } = await run(`${NAME}:F32`);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^loads +yes$/m);
  const several = await run(NAME);
  expect(several.code).not.toBe(0);
  expect(several.stderr).toMatch(/several quantizations; name one after a colon: F16, F32/);
  expect((await run('acme/fox-GGUF')).stderr).toContain('did you mean hf.co/acme/fox-GGUF?');
});
