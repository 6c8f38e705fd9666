import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess, runProgram, startRocmforge } from '../support/command-line.js';
import { FakeHub, type HubRequest, sha256 } from '../support/fake-hub.js';
import { Random } from '../support/random.js';
import { randomModel } from '../support/random-model.js';
import { byTier } from '../support/run-size.js';

const KILLS = byTier({ quick: 5, default: 5, full: 20 });
const MIB = 1 << 20;
const COMMAND = path.join(packageRoot, 'dist', 'cli', 'main.js');

let hub: FakeHub;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
});
afterEach(() => hub.close());

const environment = () => ({ HF_ENDPOINT: hub.endpoint, HF_HOME: folder, HF_TOKEN: '' });
const pull = (name: string) => runProgram(process.execPath, [COMMAND, 'pull', name], '', environment());
const blobs = () => {
  const at = path.join(folder, 'hub', 'models--acme--fox-GGUF', 'blobs');
  return existsSync(at) ? readdirSync(at).map((name) => path.join(at, name)) : [];
};

/** Bytes by name of blob. */
const onDisk = () => new Map(blobs().map((blob) => [path.basename(blob), statSync(blob).size]));
const bytesOf = (sizes: ReadonlyMap<string, number>) => [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);

function noise(bytes: number, seed: number): Buffer {
  const random = new Random(seed);
  return Buffer.from(Uint32Array.from({ length: bytes / 4 }, () => random.below(2 ** 32)).buffer);
}

const ended = (child: ChildProcess) => new Promise((resolve) => child.once('close', resolve));

describe('rocmforge pull', () => {
  it(`killed at ${KILLS} random bytes goes on each time, and what it ends with is what the hub has`, async () => {
    const random = new Random(Date.now());
    const parts = [1, 2].map((part) => ({
      path: `fox-Q8_0-0000${part}-of-00002.gguf`,
      content: noise(4 * MIB, part),
    }));
    const total = 8 * MIB;
    hub = await FakeHub.start(parts);
    for (let kill = 0; kill < KILLS; kill += 1) {
      const kept = onDisk();
      const asked = hub.contentRequests.length;
      const until = hub.bytesSent + 1 + random.below(total / KILLS - 1);
      const child = spawn(process.execPath, [COMMAND, 'pull', 'hf.co/acme/fox-GGUF'], {
        env: { ...process.env, ...environment() },
        stdio: 'ignore',
      });
      hub.afterBytes = (sent) => sent >= until;
      // What was sent lies in sockets for as long as a busy machine likes; a kill is worth its name once some of it was kept.
      await expect.poll(() => bytesOf(onDisk()), { interval: 1 }).toBeGreaterThan(bytesOf(kept));
      await new Promise((resolve) => setTimeout(resolve, random.below(20)));
      child.kill('SIGKILL');
      await ended(child);
      wentOnFrom(kept, hub.contentRequests.slice(asked));
      for (const blob of blobs()) {
        const content = readFileSync(blob);
        if (!blob.endsWith('.incomplete')) expect(sha256(content)).toBe(path.basename(blob));
      }
      expect(existsSync(path.join(folder, 'hub', 'models--acme--fox-GGUF', 'refs'))).toBe(false);
    }
    hub.afterBytes = () => false;
    const kept = onDisk();
    const asked = hub.contentRequests.length;
    const { code, stdout } = await pull('hf.co/acme/fox-GGUF');
    expect(code).toBe(0);
    wentOnFrom(kept, hub.contentRequests.slice(asked));
    const first = stdout.trim();
    expect(readFileSync(first)).toEqual(parts[0]?.content);
    expect(readFileSync(first.replace('00001-of', '00002-of'))).toEqual(parts[1]?.content);
    expect(blobs().map((blob) => path.basename(blob))).toEqual(parts.map(({ content }) => sha256(content)).sort());

    /** No byte that was kept is asked for again. */
    function wentOnFrom(kept: ReadonlyMap<string, number>, requests: readonly HubRequest[]): void {
      for (const { path: name, range } of requests) {
        const part = parts.find(({ path }) => name === `/${path}`);
        const digest = sha256(part?.content ?? Buffer.of());
        expect(kept.has(digest)).toBe(false);
        expect(Number(/=(\d+)/.exec(range ?? '')?.[1])).toBeGreaterThanOrEqual(kept.get(`${digest}.incomplete`) ?? 0);
      }
    }
  });

  // In a mount namespace of its own, which ends with the process.
  const onSmallDisk = (size: string, name: string) =>
    spawn(
      'unshare',
      [
        ...['--map-root-user', '--mount', 'sh', '-c'],
        `mount -t tmpfs -o size=${size} none "$HF_HOME" && exec "$0" "$@"`,
        ...[process.execPath, COMMAND, 'pull', name],
      ],
      { env: { ...process.env, ...environment() } },
    );
  const told = async (child: ReturnType<typeof onSmallDisk>): Promise<string> => {
    let stderr = '';
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    const code = await ended(child);
    return `${code} ${stderr}`;
  };

  it('on a disk that is too small says so before anything comes', async () => {
    hub = await FakeHub.start([{ path: 'fox.gguf', content: noise(4 * MIB, 3) }]);
    const output = await told(onSmallDisk('2m', 'hf.co/acme/fox-GGUF'));
    expect(output).toMatch(/^1 rocmforge: DISK_FULL: 4194304 bytes of fox\.gguf are missing and \d+ are free/);
    expect(hub.contentRequests).toEqual([]);
  });

  it('on a disk that somebody else fills meanwhile ends with DISK_FULL, and takes nothing for whole', async () => {
    hub = await FakeHub.start([{ path: 'fox.gguf', content: noise(4 * MIB, 4) }]);
    const child = onSmallDisk('5m', 'hf.co/acme/fox-GGUF');
    let isFilled = false;
    hub.afterBytes = (sent) => {
      if (isFilled || sent < MIB) return false;
      isFilled = true;
      // The disk as the process sees it.
      writeFileSync(path.join('/proc', String(child.pid), 'root', folder, 'filler'), Buffer.alloc(2 * MIB));
      return false;
    };
    expect(await told(child)).toMatch(
      /^1 rocmforge: DISK_FULL: no room is left to write .*\.incomplete; the downloaded part is kept/,
    );
  });

  it('of a model that serve names runs before it serves, and not again', async () => {
    hub = await FakeHub.start([{ path: 'tiny-F32.gguf', content: Buffer.from(randomModel().build()) }]);
    for (const previous of [0, 1]) {
      expect(hub.contentRequests).toHaveLength(previous);
      Object.assign(process.env, environment());
      const socket = `unix:${path.join(folder, 'gateway.sock')}`;
      const { child, line } = await startRocmforge(
        /^serving /,
        ...['serve', '--model', 'hf.co/acme/fox-GGUF:F32', '--listen', socket],
      );
      expect(line).toMatch(/^serving tiny-F32 on unix:/);
      expect(await endProcess(child)).toBe(0);
    }
    expect(hub.contentRequests).toHaveLength(1);
  });

  it.each([
    ['hf.co/acme', 'give hf.co/OWNER/REPOSITORY'],
    ['hf.co/../../etc/passwd', 'give hf.co/OWNER/REPOSITORY'],
    ['hf.co/../etc', '".." is not a valid owner or repository name'],
    ['hf.co/acme/a--b', '"a--b" is not a valid'],
    ['hf.co/acme/fox@../../x', 'is not a branch'],
    ['hf.co/acme/fox:../../../etc/passwd', 'is neither a quantization'],
    ['models/demo.gguf', 'give hf.co/OWNER/REPOSITORY'],
    ['hf.co/acme/fo x', '"fo x" is not a valid'],
    ['hf.co/acme/fox?x', '"fox?x" is not a valid'],
    ['hf.co/acme%2f/fox', '"acme%2f" is not a valid'],
  ])('takes no name that is none: %s', async (name, why) => {
    hub = await FakeHub.start([]);
    const { code, stderr } = await pull(name);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^rocmforge: INVALID_OPTION: ".*" is not a model on a hub: /),
    });
    expect(stderr).toContain(why);
    expect(hub.requests).toEqual([]);
    expect(statSync(folder).nlink).toBe(2);
  });

  it('lists what there is with sizes and what they leave of a GPU', async () => {
    hub = await FakeHub.start([
      { path: 'fox-Q4_K_M.gguf', content: noise(2 * MIB, 5) },
      { path: 'fox-F16.gguf', content: noise(8 * MIB, 6) },
    ]);
    const list = (...args: string[]) =>
      runProgram(process.execPath, [COMMAND, 'pull', 'hf.co/acme/fox-GGUF', ...args], '', environment());
    const { code, stdout } = await list('--list', '--memory', '4M');
    expect({ code, lines: stdout.split('\n').slice(0, 2) }).toEqual({
      code: 0,
      lines: ['Q4_K_M  2.0 MiB, leaves 2.0 MiB of a GPU', 'F16     8.0 MiB, 4.0 MiB more than a GPU has free'],
    });
    const undecided = await list();
    expect(undecided.code).toBe(1);
    expect(undecided.stdout).toContain('F16     8.0 MiB, ');
    expect(undecided.stderr).toContain('name one after a colon: Q4_K_M, F16');
  });
});
