import { existsSync, readFileSync } from 'node:fs';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const FILE = new URL('../durations.json', import.meta.url);
const durations: Readonly<Record<string, number>> = existsSync(FILE)
  ? (JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, number>)
  : {};

/**
 * Orders files by their recorded duration (test/durations.json, seconds; `npm run test:full` writes it), the slowest first:
 * started last, one of them would run on beside an idle core. The rest follow in vitest's own order.
 */
export default class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = ({ moduleId }: TestSpecification): number => {
      const at = moduleId.lastIndexOf('/test/');
      return durations[moduleId.slice(at + 1)] ?? 0;
    };
    return (await super.sort(files)).sort((a, b) => seconds(b) - seconds(a));
  }
}
