import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePrivateFolder, removeLeftFolders } from '../../../../src/gateway/replica/link/private-folder.js';

describe('folders of gateways that were killed', () => {
  const usual = process.env.TMPDIR;
  let place = '';
  beforeEach(() => {
    place = mkdtempSync(path.join(os.tmpdir(), 'rf-'));
    process.env.TMPDIR = place;
  });
  afterEach(() => {
    if (usual === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = usual;
    rmSync(place, { recursive: true, force: true });
  });

  const ownerOf = (folder: string) => readFileSync(path.join(folder, 'owner'), 'utf8');
  /** A folder as `makePrivateFolder` makes it, with another owner. */
  function folderOf(name: string, owner: string): string {
    const folder = path.join(place, `rocmforge-${name}`);
    mkdirSync(folder, { mode: 0o700 });
    writeFileSync(path.join(folder, 'owner'), owner);
    writeFileSync(path.join(folder, 'fault-record'), '');
    return folder;
  }
  /** A number that no process has. */
  function deadPid(): number {
    return Number(execFileSync('sh', ['-c', 'echo $$'], { encoding: 'utf8' }));
  }

  it('are removed at a start: when no process has the number, or another has', () => {
    const own = makePrivateFolder();
    const [boot, namespace] = ownerOf(own).split(' ');
    const dead = folderOf('aaaaaa', `${boot} ${namespace} ${deadPid()} 12345`);
    const reused = folderOf('bbbbbb', `${boot} ${namespace} ${process.pid} 1`);
    removeLeftFolders();
    expect([own, dead, reused].map(existsSync)).toEqual([true, false, false]);
  });

  it('stay while their process runs', async () => {
    const script = `import { makePrivateFolder } from './dist/gateway/replica/link/private-folder.js';
      console.log(makePrivateFolder()); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const folder = await new Promise<string>((resolve) => {
      child.stdout.once('data', (text: Buffer) => resolve(String(text).trim()));
    });
    removeLeftFolders();
    expect(existsSync(folder)).toBe(true);
    const closed = new Promise((resolve) => child.once('close', resolve));
    child.kill('SIGKILL');
    await closed;
    removeLeftFolders();
    expect(existsSync(folder)).toBe(false);
  });

  it('stay when anything about them cannot be told', () => {
    const [boot, namespace] = ownerOf(makePrivateFolder()).split(' ');
    const pid = deadPid();
    const open = folderOf('eeeeee', `${boot} ${namespace} ${pid} 1`);
    chmodSync(open, 0o755);
    const folders = [
      folderOf('aaaaaa', `another-boot ${namespace} ${pid} 1`),
      folderOf('bbbbbb', `${boot} pid:[1] ${pid} 1`),
      folderOf('cccccc', `${boot} ${namespace} -1 1`),
      folderOf('dddddd', ''),
      folderOf('longer-name', `${boot} ${namespace} ${pid} 1`),
      open,
    ];
    removeLeftFolders();
    expect(folders.map(existsSync)).toEqual(folders.map(() => true));
  });
});
