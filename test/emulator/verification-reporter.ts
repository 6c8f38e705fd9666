import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { UserConsoleLog } from 'vitest';
import type { Reporter, TestCase, TestModule } from 'vitest/node';
import { packageRoot } from '../../src/shared/package.js';
import { EXCEPTIONS } from './exceptions.js';
import { EXECUTED_PREFIX, type ExecutedLine } from './executed.js';
import { modelsSection, type Row, readRows, render } from './verification-table.js';

const FILE = path.join(packageRoot, 'build', 'docs', 'verification.md');
const RECORD = path.join(packageRoot, 'test', 'emulator', 'executed.json');
const SHA_DIGITS = 12;

/** Writes build/docs/verification.md: what was executed on the emulator, how far from the references, and when. */
export default class VerificationReporter implements Reporter {
  private readonly executed = new Map<string, ExecutedLine>();
  private readonly errors = new Map<string, { error: number; share: number }>();

  /** Gathers what `printExecuted` and `printErrors` say at the end of each suite. */
  onUserConsoleLog({ content }: UserConsoleLog): void {
    for (const line of content.split('\n')) {
      if (line.startsWith(EXECUTED_PREFIX)) this.addExecuted(JSON.parse(line.slice(EXECUTED_PREFIX.length)));
      const found = /^(\S+) on (\S+): \d+ results, largest error (\S+), (\d+) %/.exec(line);
      if (found) this.addError(`${found[1]} ${found[2]}`, Number(found[3]), Number(found[4]));
    }
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const date = new Date().toISOString().slice(0, 10);
    const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: packageRoot, encoding: 'utf8' }).trim();
    const rows = new Map<string, Row>();
    const before = existsSync(FILE) ? readFileSync(FILE, 'utf8') : '';
    for (const row of readRows(before)) {
      // A row stays as long as the code object that it is about.
      if (shaOf(row) === row.sha256) rows.set(keyOf(row), row);
    }
    for (const [key, line] of this.executed) {
      const { error, share } = this.errors.get(key) ?? { error: 0, share: 0 };
      const sha256 = line.sha256.slice(0, SHA_DIGITS);
      const { operation: kernel, target, launches, instructions } = line;
      const missing = line.held.filter((name) => !line.kernels.includes(name));
      const variants = `${line.kernels.length} of ${line.held.length}${missing.map((name) => `, not ${name}`).join('')}`;
      const verdict = verdictOf(tests.filter((test) => test.fullName.startsWith(`${kernel} on ${target} > `)));
      // Launches in other kernels' tests do not replace a row of the kernel's own.
      if (verdict === '' && rows.has(key)) continue;
      rows.set(key, { kernel, target, sha256, variants, launches, error, share, instructions, verdict, date, commit });
    }
    mkdirSync(path.dirname(FILE), { recursive: true });
    writeFileSync(FILE, render([...rows.values()], EXCEPTIONS, modelsSection(before)));
    if (process.env.ROCMFORGE_RECORD_EMULATED) recordTargets([...rows.values()]);
    console.log(`\n${this.executed.size} of ${rows.size} rows of build/docs/verification.md are of this run`);
    for (const { kernels, targets, inputs, reason } of EXCEPTIONS) {
      console.log(`exception: ${kernels.source} on ${targets.source}, ${inputs}: ${reason}`);
    }
  }

  private addExecuted(line: ExecutedLine): void {
    const key = `${line.operation} ${line.target}`;
    const before = this.executed.get(key);
    this.executed.set(key, {
      ...line,
      kernels: [...new Set([...line.kernels, ...(before?.kernels ?? [])])],
      launches: line.launches + (before?.launches ?? 0),
      instructions: line.instructions + (before?.instructions ?? 0),
    });
  }

  private addError(key: string, error: number, share: number): void {
    const before = this.errors.get(key) ?? { error: 0, share: 0 };
    this.errors.set(key, { error: Math.max(error, before.error), share: Math.max(share, before.share) });
  }
}

/** Puts what ran of each target in this run and earlier ones into the file that docs/targets.md is made from. */
function recordTargets(rows: readonly Row[]): void {
  const recorded = JSON.parse(readFileSync(RECORD, 'utf8')) as Record<string, unknown>;
  for (const target of new Set(rows.map((row) => row.target))) {
    const own = rows.filter((row) => row.target === target);
    const sum = (number: (row: Row) => number) => own.reduce((total, row) => total + number(row), 0);
    const tests = (row: Row, state: string) => Number(new RegExp(`(\\d+) ${state}`).exec(row.verdict)?.[1] ?? 0);
    const { date, commit } = own.reduce((a, b) => (b.date >= a.date ? b : a));
    recorded[target] = {
      objects: own.length,
      kernels: sum((row) => Number.parseInt(row.variants, 10)),
      passed: sum((row) => tests(row, 'passed')),
      failed: sum((row) => tests(row, 'failed')),
      date,
      commit,
    };
  }
  writeFileSync(RECORD, `${JSON.stringify(recorded, null, 2)}\n`);
}

const keyOf = ({ kernel, target }: Row): string => `${kernel} ${target}`;

/** `3 passed, 1 failed`; of a kernel that only other kernels' suites launch, nothing. */
function verdictOf(tests: readonly TestCase[]): string {
  const count = (state: string) => tests.filter((test) => test.result().state === state).length;
  return ['passed', 'failed', 'skipped']
    .filter((state) => count(state) > 0)
    .map((state) => `${count(state)} ${state}`)
    .join(', ');
}

/** The hash of the code object that is built now; undefined when there is none. */
function shaOf({ kernel, target }: Row): string | undefined {
  const folder = process.env.ROCMFORGE_TEST_KERNELS ?? path.join(packageRoot, 'build', 'all-kernels');
  const file = path.join(folder, target, `${kernel}.hsaco`);
  if (!existsSync(file)) return undefined;
  return createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, SHA_DIGITS);
}
