import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { shellRocmforge } from '../support/command-line.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

describe('a file that cannot be written is named, and no part of it stays', () => {
  const SYNTH = 'rocmforge synth --shape tiny --type F16 -o';

  it('synth, on a full disk', async () => {
    const { code, stderr } = await shellRocmforge(`${SYNTH} /dev/full`);
    expect(code).toBe(1);
    expect(stderr).toBe(
      'rocmforge: DISK_FULL: --output /dev/full cannot be written: no space is left on its disk; free space, or write elsewhere\n',
    );
    expect(existsSync('/dev/full')).toBe(true);
  });

  it('synth, into a folder that does not exist', async () => {
    const { code, stderr } = await shellRocmforge(`${SYNTH} ${folder}/none/a.gguf`);
    expect(code).toBe(1);
    expect(stderr).toBe(
      `rocmforge: INVALID_OPTION: --output ${folder}/none/a.gguf cannot be written: its folder does not exist\n`,
    );
  });

  it.each([`${SYNTH}`, 'rocmforge report -o'])('%s, over a limit in the middle', async (line) => {
    const { code, stderr } = await shellRocmforge(`ulimit -f 1; ${line} ${folder}/cut`);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^rocmforge: SYSTEM_LIMIT: --output .*\/cut cannot be written: .*ulimit -f.*\n$/);
    expect(readdirSync(folder)).not.toContain('cut');
  });

  it('report, over a file that exists, which stays', async () => {
    const { code, stderr } = await shellRocmforge(`echo kept > ${folder}/kept; rocmforge report -o ${folder}/kept`);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^rocmforge: INVALID_OPTION: --output .*\/kept cannot be written: EEXIST: file already exists/,
    );
    expect(readFileSync(path.join(folder, 'kept'), 'utf8')).toBe('kept\n');
  });
});
