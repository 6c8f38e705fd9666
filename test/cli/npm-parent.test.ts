import { describe, expect, it } from 'vitest';
import { isWhole, npmAncestors, type ProcessEntry } from '../../src/cli/serve/npm-parent.js';

type Processes = Record<number, ProcessEntry>;
const reading = (processes: Processes) => (pid: number) => processes[pid];
const gateway = (parent: number): ProcessEntry => ({ parent, commandLine: 'node\0rocmforge\0serve' });
const shell = (parent: number): ProcessEntry => ({ parent, commandLine: 'sh\0-c\0rocmforge serve' });

describe('a server that npm started', () => {
  it.each([
    ['npx', 'npm exec rocmforge serve --model m.gguf'],
    ['an npm script', 'npm run start'],
    ['npm’s own program', 'node\0/usr/lib/node_modules/npm/bin/npm-cli.js\0exec'],
  ])('by %s: ends with npm, with a shell between and without', (_, commandLine) => {
    const npm = { parent: 7, commandLine };
    const bash = { parent: 1, commandLine: 'bash' };
    const through: Processes = { 10: gateway(9), 9: shell(8), 8: npm, 7: bash };
    expect(npmAncestors(10, reading(through))).toEqual([10, 9, 8]);
    expect(npmAncestors(10, reading({ 10: gateway(8), 8: npm, 7: bash }))).toEqual([10, 8]);
    expect(isWhole([10, 9, 8], reading(through))).toBe(true);
    // npm has ended: the shell is the system's now.
    expect(isWhole([10, 9, 8], reading({ 10: gateway(9), 9: shell(1) }))).toBe(false);
    expect(isWhole([10, 9, 8], reading({ 10: gateway(1), 8: npm, 7: bash }))).toBe(false);
  });

  it.each<[string, Processes]>([
    ['a service manager', { 10: gateway(1), 1: { parent: 0, commandLine: 'systemd' } }],
    ['a shell that npm had not started', { 10: gateway(9), 9: shell(1) }],
    ['a program with npm in its name', { 10: gateway(9), 9: { parent: 1, commandLine: 'snpmd\0--npmrc' } }],
    ['nobody that can be read', { 10: gateway(9) }],
  ])('is not one that %s started', (_, processes) => {
    expect(npmAncestors(10, reading(processes))).toBeUndefined();
  });
});
