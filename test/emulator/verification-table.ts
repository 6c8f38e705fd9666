import type { EmulatorException } from './exceptions.js';

/** A code object and what came of running it. */
export interface Row {
  readonly kernel: string;
  readonly target: string;
  /** The first digits. */
  readonly sha256: string;
  /** Number of the code object's kernels that were launched, and the names of the others. */
  readonly variants: string;
  readonly launches: number;
  /** Largest |difference| from the float64 reference. */
  readonly error: number;
  /** Largest part of what the contract accepts that a difference took, in percent. */
  readonly share: number;
  readonly instructions: number;
  /** Number of the kernel's tests that passed, failed and were skipped. */
  readonly verdict: string;
  readonly date: string;
  readonly commit: string;
}

const HEADER = [
  'source',
  'target',
  'sha256',
  'kernels in it',
  'tests',
  'launches',
  'largest error',
  'of the bound',
  'wave-instructions',
  'date',
  'commit',
];

const INTRODUCTION = `# Code objects executed

Written by \`npm run test:emulator\`; do not edit. Each kernel's tests (\`test/kernels/\`) ran the AMD code object on an
instruction set emulator (\`tools/emulator/\`), with few and small cases, and held the results against the float64
references of \`test/kernels/reference/\` within the tolerance of the kernel's contract. A test that would take more than
two million wave-instructions a launch is skipped. Error 0: the results are the very bits of the reference. The
emulator says nothing of speed, of hazards between instructions or of real hardware.
`;

/** Result of `npm run verify:emulator`, from this heading to the end of the file. */
const MODELS_HEADING = /^(?=## Whole models$)/m;

/** The part of build/docs/verification.md that is not written here. */
export const modelsSection = (text: string): string => text.split(MODELS_HEADING)[1] ?? '';

/** The text of build/docs/verification.md, of which `models` is kept as it is. */
export function render(rows: readonly Row[], exceptions: readonly EmulatorException[], models: string): string {
  const sorted = [...rows].sort((a, b) => `${a.kernel} ${a.target}`.localeCompare(`${b.kernel} ${b.target}`));
  const lines = sorted.map((row) => [
    row.kernel,
    row.target,
    `\`${row.sha256}\``,
    row.variants,
    row.verdict,
    row.launches,
    row.error === 0 ? '0' : row.error.toExponential(1),
    `${row.share} %`,
    row.instructions,
    row.date,
    row.commit,
  ]);
  const table = [HEADER, HEADER.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`);
  const listed = exceptions.map(
    ({ kernels, targets, inputs, reason }) => `- \`${kernels.source}\` on \`${targets.source}\`, ${inputs}: ${reason}`,
  );
  const exceptional = listed.length === 0 ? ['None.'] : listed;
  return `${[INTRODUCTION, ...table, '', '## Exceptions', '', ...exceptional].join('\n')}\n${models && `\n${models}`}`;
}

/** The rows of a text that `render` gave. */
export function readRows(text: string): Row[] {
  const lines = (text.split(MODELS_HEADING)[0] as string).split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(2).map((line) => {
    const cells = line.split('|').map((cell) => cell.trim());
    const [, kernel, target, sha256, variants, verdict, launches, error, share, instructions, date, commit] =
      cells as string[];
    return {
      kernel: kernel!,
      target: target!,
      sha256: sha256!.replaceAll('`', ''),
      variants: variants!,
      verdict: verdict!,
      launches: Number(launches),
      error: Number(error),
      share: Number.parseFloat(share!),
      instructions: Number(instructions),
      date: date!,
      commit: commit!,
    };
  });
}
