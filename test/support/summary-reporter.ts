import type { Reporter, TestModule } from 'vitest/node';

/** Prints the time budget by suite, or by file, and one plain closing line, `N passed, N failed, N skipped`. */
export default class SummaryReporter implements Reporter {
  constructor(private readonly options: { readonly budget?: 'suite' | 'file' } = {}) {}

  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const seconds = new Map<string, number>();
    const shapes = new Map<string, Map<string, number>>();
    for (const module of modules) {
      const { budget = 'suite' } = this.options;
      const suite =
        budget === 'file' ? module.relativeModuleId : module.relativeModuleId.split('/').slice(0, 2).join('/');
      seconds.set(suite, (seconds.get(suite) ?? 0) + module.diagnostic().duration / 1000);
      const failedBefore = counts.failed;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== 'pending') counts[state] += 1;
        const generated = test.meta().shapes;
        if (generated === undefined) continue;
        const kernels = shapes.get(generated.target) ?? new Map<string, number>();
        const kernel = module.relativeModuleId.split('/').at(-1)!.replace('.test.ts', '');
        shapes.set(generated.target, kernels.set(kernel, (kernels.get(kernel) ?? 0) + generated.count));
      }
      // A file whose hooks or imports fail runs no test: that is a failure too.
      if (module.state() === 'failed' && counts.failed === failedBefore) counts.failed += 1;
    }
    console.log('\nTime (seconds of test code):');
    for (const [suite, spent] of [...seconds].sort((a, b) => b[1] - a[1])) {
      console.log(`  ${spent.toFixed(1).padStart(7)}  ${suite}`);
    }
    for (const [target, kernels] of shapes) {
      const least = [...kernels].reduce((a, b) => (b[1] < a[1] ? b : a));
      const sum = [...kernels.values()].reduce((a, b) => a + b);
      console.log(
        `\n${sum} generated shapes on ${target}, of each of ${kernels.size} kernels ${least[1]} (${least[0]}) or more`,
      );
    }
    console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }
}
