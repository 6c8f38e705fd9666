import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What takes a minute or more on two cores, longest first: begun last, one of them would run on beside an idle core. */
const LONGEST = [
  'test/device/hip-families.test.ts',
  'test/executor/families-quantized.test.ts',
  'test/device/hip-parity.test.ts',
  'test/faults/kills.test.ts',
  'test/kernels/attention_tile.test.ts',
  'test/faults/files.test.ts',
  'test/executor/parity-mutations.test.ts',
  'test/executor/launched-kernels.test.ts',
  'test/kernels/matmul_packed_tile.test.ts',
  'test/kernels/matmul_experts.test.ts',
  'test/cli/generate.test.ts',
  'test/device/hip-double.test.ts',
  'test/e2e/schedules.test.ts',
];

/** vitest's own order where nothing is remembered of earlier runs, behind the longest. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(name));
      return at === -1 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
