import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { RunnerTestFile, UserConsoleLog } from 'vitest';
import {
  DefaultReporter,
  type TestCase,
  type TestModule,
  type TestRunEndReason,
  type TestSpecification,
  type TestSuite,
  type Vitest,
} from 'vitest/node';

const SLOWEST = 10;
/** Variables that choose what a run does; a command that reproduces a failure sets them as they were. */
const VARIABLES = /^ROCMFORGE_(?!TEST_|DOUBLE_)/;
/** Line in which a file prints why tests are skipped, and the form of it in a suite's name. */
const PRINTED_REASON = /\bskipped\b[,:]? *([^\n]*)/g;
const NAMED_REASON = /\(skipped ([^)]*)\)/g;
const CLEAR_LINE = '\r\u001b[K';

type Counts = Record<'passed' | 'failed' | 'skipped', number>;

/**
 * Prints failures, and of all that passes what is slowest, what was skipped and why, and how many generated shapes ran. What
 * tests print goes to `build/test-report/<file>.txt`, and to the terminal where the file fails. The last line is
 * `N passed, N failed, N skipped`.
 */
export default class SummaryReporter extends DefaultReporter {
  private folder = '';
  private files = 0;
  private ended = 0;
  private readonly logs = new Map<string, string>();

  constructor() {
    super({ summary: false });
  }

  override onInit(ctx: Vitest): void {
    this.ctx = ctx;
    this.folder = path.join(ctx.config.root, 'build', 'test-report');
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder, { recursive: true });
  }

  override onTestRunStart(specifications: readonly TestSpecification[]): void {
    super.onTestRunStart(specifications);
    this.files = specifications.length;
    this.ended = 0;
  }

  override onUserConsoleLog(log: UserConsoleLog): void {
    const task = log.taskId === undefined ? undefined : this.ctx.state.idMap.get(log.taskId);
    const file = task === undefined ? 'unknown file' : this.relative(task.file.filepath);
    const text = log.content.endsWith('\n') ? log.content : `${log.content}\n`;
    this.logs.set(file, (this.logs.get(file) ?? '') + text);
    appendFileSync(path.join(this.folder, `${file.replaceAll('/', '.')}.txt`), text);
  }

  protected override printTestModule(module: TestModule): void {
    this.ended += 1;
    const state = module.state();
    const clear = this.isTTY ? CLEAR_LINE : '';
    if (state === 'failed') this.log(`${clear}FAILED ${module.relativeModuleId}`);
    if (this.isTTY) {
      process.stdout.write(`${CLEAR_LINE}${this.ended} of ${this.files} files, last: ${module.relativeModuleId}`);
    }
  }

  override onTestRunEnd(
    modules: readonly TestModule[],
    errors: Parameters<DefaultReporter['onTestRunEnd']>[1],
    reason: TestRunEndReason,
  ): void {
    if (this.isTTY) process.stdout.write(CLEAR_LINE);
    for (const module of modules.filter((each) => each.state() === 'failed')) this.printLog(module.relativeModuleId);
    super.onTestRunEnd(modules, errors, reason);
    const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) add(counts, countsOf(module));
    // An error outside of all tests fails the run, too.
    if (errors.length > 0) counts.failed += errors.length;
    this.writeDurations(modules);
    this.printSlowest(modules);
    this.printShapes(modules);
    this.printSkipped(modules);
    this.printCommands(modules);
    this.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }

  /** The counts come last, in {@link onTestRunEnd}. */
  override reportTestSummary(_files: RunnerTestFile[], _errors: unknown[], _leakCount: number): void {}

  private printLog(file: string): void {
    const text = this.logs.get(file);
    if (text !== undefined) this.log(`\nPrinted by ${file}:\n${text.trimEnd()}`);
  }

  /** Seconds of test code by file, for test/durations.json. */
  private writeDurations(modules: readonly TestModule[]): void {
    const seconds = modules.map((module) => [module.relativeModuleId, module.diagnostic().duration / 1000] as const);
    const rounded = seconds.map(([file, each]) => [file, Math.round(each)] as const).filter(([, each]) => each > 0);
    writeFileSync(path.join(this.folder, 'durations.json'), JSON.stringify(Object.fromEntries(rounded)));
  }

  private printSlowest(modules: readonly TestModule[]): void {
    const minutes = ((performance.now() - this.start) / 60_000).toFixed(1);
    this.log(`${modules.length} files in ${minutes} minutes; the slowest, in seconds of test code:`);
    const timed = modules.map((module) => [module.diagnostic().duration / 1000, module.relativeModuleId] as const);
    for (const [seconds, file] of timed.sort((a, b) => b[0] - a[0]).slice(0, SLOWEST)) {
      this.log(`${seconds.toFixed(1).padStart(8)}  ${file}`);
    }
  }

  private printShapes(modules: readonly TestModule[]): void {
    const shapes = new Map<string, Map<string, number>>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const generated = test.meta().shapes;
        if (generated === undefined) continue;
        const kernels = shapes.get(generated.target) ?? new Map<string, number>();
        const kernel = path.basename(module.relativeModuleId, '.test.ts');
        shapes.set(generated.target, kernels.set(kernel, (kernels.get(kernel) ?? 0) + generated.count));
      }
    }
    for (const [target, kernels] of shapes) {
      const [kernel, least] = [...kernels].reduce((a, b) => (b[1] < a[1] ? b : a));
      const sum = [...kernels.values()].reduce((a, b) => a + b);
      this.log(`${sum} generated shapes on ${target}; fewest of one of ${kernels.size} kernels: ${least} (${kernel})`);
    }
  }

  /** Skipped tests by reason: the test's own, else what its file printed. */
  private printSkipped(modules: readonly TestModule[]): void {
    const reasons = new Map<string, number>();
    for (const module of modules) {
      const printed = reasonIn(this.logs.get(module.relativeModuleId) ?? '', PRINTED_REASON);
      for (const test of module.children.allTests('skipped')) {
        const result = test.result();
        const own = result.state === 'skipped' ? result.note : undefined;
        const reason =
          own ?? reasonIn(test.fullName, NAMED_REASON) ?? printed ?? `no reason given (${module.relativeModuleId})`;
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      }
    }
    if (reasons.size > 0) this.log('Skipped tests by reason:');
    for (const [reason, count] of [...reasons].sort((a, b) => b[1] - a[1])) {
      this.log(`${String(count).padStart(8)}  ${reason}`);
    }
  }

  private printCommands(modules: readonly TestModule[]): void {
    const commands = modules.flatMap((module) => {
      if (module.state() !== 'failed') return [];
      const failed = [...module.children.allTests('failed')];
      // A hook or an import of the file failed.
      if (failed.length === 0) return [this.commandFor(module)];
      return failed.map((test) => this.commandFor(module, test));
    });
    if (commands.length > 0) this.log(`\nTo run what failed:\n${commands.map((command) => `  ${command}`).join('\n')}`);
  }

  private commandFor(module: TestModule, test?: TestCase): string {
    const variables = Object.entries(process.env).filter(([name]) => VARIABLES.test(name));
    const config = path.basename(this.ctx.vite.config.configFile || 'vitest.config.ts');
    return [
      ...variables.map(([name, value]) => `${name}=${quoted(value ?? '')}`),
      'npx vitest run',
      ...(config === 'vitest.config.ts' ? [] : [`-c ${config}`]),
      module.relativeModuleId,
      ...(test === undefined ? [] : [`-t ${quoted(escapedPattern(namesOf(test).join(' ')))}`]),
    ].join(' ');
  }
}

function countsOf(module: TestModule): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const test of module.children.allTests()) {
    const { state } = test.result();
    if (state !== 'pending') counts[state] += 1;
  }
  // A file whose hooks or imports fail may have no failed test: that is a failure too.
  if (module.state() === 'failed' && counts.failed === 0) counts.failed = 1;
  return counts;
}

function add(counts: Counts, more: Counts): void {
  for (const state of ['passed', 'failed', 'skipped'] as const) counts[state] += more[state];
}

/** The reasons that a text gives for skipping; undefined where it gives none. */
function reasonIn(text: string, pattern: RegExp): string | undefined {
  const reasons = new Set([...text.matchAll(pattern)].map(([, reason]) => reason!.trim()));
  return reasons.size === 0 ? undefined : [...reasons].join('; ');
}

/** The names of a test's suites, and its own: what `-t` is matched with, a space between them. */
function namesOf(test: TestCase | TestSuite): readonly string[] {
  return [...(test.parent.type === 'suite' ? namesOf(test.parent) : []), test.name];
}

/** As one word of a POSIX shell. */
const quoted = (text: string): string => (/^[\w./:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** `-t` takes a regular expression. */
const escapedPattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
