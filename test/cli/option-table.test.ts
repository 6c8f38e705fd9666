import { Command } from 'commander';
import { expect, expectTypeOf, it } from 'vitest';
import { ADMIN_OPTIONS, PULL_OPTIONS } from '../../src/cli/admin/operate-commands.js';
import { BENCH_KERNELS_OPTIONS, BENCH_OPTIONS, BENCH_SERVE_OPTIONS } from '../../src/cli/bench/bench-commands.js';
import { DEMO_OPTIONS, INSPECT_OPTIONS, VERIFY_OPTIONS } from '../../src/cli/command-options.js';
import { completionScript } from '../../src/cli/common/completion.js';
import { addOptions } from '../../src/cli/common/options.js';
import { EXECUTOR_COMMAND_OPTIONS } from '../../src/cli/executor-commands.js';
import { CHAT_OPTIONS, GENERATE_OPTIONS } from '../../src/cli/generate/text-commands.js';
import { gatewayOptions } from '../../src/cli/serve/gateway-options.js';
import { readModelOptions } from '../../src/cli/serve/model-options.js';
import { SERVE_OPTIONS } from '../../src/gateway/option-table.js';
import { GATEWAY_OPTIONS } from '../../src/gateway/options.js';
import { argumentsOf, EXECUTOR_OPTIONS, INHERITED_OPTIONS } from '../../src/shared/executor-options.js';
import {
  flag,
  flagOf,
  flagOff,
  flagOnOff,
  flagOrFalse,
  grouped,
  type OptionRow,
  type OptionRows,
  type OptionValues,
  option,
  preset,
  required,
  withDefaults,
} from '../../src/shared/option-table.js';
import { MOST_FLOAT, MOST_INTEGER, positive, seconds, text, wholeNumber } from '../../src/shared/option-types.js';
import { optionsPage } from '../../tools/reference-pages.mjs';

/** The table with a row that this test alone has. */
const ROWS = {
  ...SERVE_OPTIONS,
  ...grouped('Forest:', { mostAcorns: preset('<count>', wholeNumber(1), 3, 'acorns to find', { scope: 'model' }) }),
};

const serve = (rows: OptionRows = SERVE_OPTIONS) => addOptions(new Command('serve').exitOverride(), rows);
const parsed = (...args: string[]) => serve().parse(args, { from: 'user' }).opts();

it('a row of the table is parsed, and in the help, in completions and in the docs', () => {
  const given = serve(ROWS).parse(['--most-acorns', '5'], { from: 'user' }).opts<OptionValues<typeof ROWS>>();
  expectTypeOf(given.mostAcorns).toBeNumber();
  expect(given.mostAcorns).toBe(5);
  expect(serve(ROWS).parse([], { from: 'user' }).opts()).toMatchObject({ mostAcorns: 3 });
  expect(serve(ROWS).helpInformation()).toMatch(/Forest:\n +--most-acorns <count> +acorns to find \(default: 3\)/);
  const program = new Command('rocmforge').addCommand(serve(ROWS));
  for (const shell of ['bash', 'zsh', 'fish'] as const)
    expect(completionScript(shell, program)).toMatch(/-l most-acorns|--most-acorns/);
  expect(optionsPage(ROWS, flagOf)).toContain('| `--most-acorns <count>` | acorns to find | `3` | yes |');
});

/** A value as it stands on a command line; undefined for an option without one. */
function sampleOf(name: string, { type, value }: OptionRow<unknown>): string | undefined {
  if (type === undefined) return undefined;
  if (typeof type !== 'function') return String(type.at(-1));
  if (value === '<address>') return 'unix:/b';
  if (value === '<origins...>') return 'https://b';
  return name === 'pipelineDepth' ? '1' : '7';
}

it('each row whose value the gateway reads is passed to it by its name', () => {
  const rows = Object.entries<OptionRow<unknown>>(GATEWAY_OPTIONS);
  expect(rows.length).toBeGreaterThan(50);
  for (const [name, row] of rows) {
    const flags = `--${row.help === undefined ? 'no-' : ''}${flagOf(name, row)}`;
    const value = sampleOf(name, row);
    const given = parsed(flags, ...(value === undefined ? [] : [value]));
    expect(given[name]).not.toBe(row.default);
    const options = gatewayOptions({ listen: 'unix:/a', ...given, model: 'a.gguf' });
    expect({ [name]: options[name as keyof typeof options] }).toEqual({ [name]: given[name] });
  }
});

it('each row with the scope of a model is taken by --model-option, and no other', () => {
  const { options } = serve();
  for (const [name, row] of Object.entries<OptionRow<unknown>>(SERVE_OPTIONS)) {
    const value = sampleOf(name, row);
    const given = `m:${flagOf(name, row)}${value === undefined ? '' : `=${value}`}`;
    const read = () => readModelOptions([given], ['m'], options).get('m');
    if (row.scope === 'model') expect(read()).toHaveProperty(name);
    else expect(read).toThrow('is not an option of one model');
  }
});

it('options of the command and of executors are not passed to the gateway', () => {
  const given = parsed('--model', 'a.gguf', '--drain-delay-ms', '5', '--threads', '2', '--step-delay-ms', '9');
  const options = gatewayOptions({ ...given, model: 'a.gguf', listen: 'unix:/a' });
  for (const name of ['models', 'drainDelayMs', 'threads', 'stepDelayMs', 'replicas'])
    expect(options).not.toHaveProperty(name);
  expect(options.executor).toEqual({
    spawn: { device: 'auto', attention: 'fused', threads: 2, stepDelayMs: 9, gpu: undefined, gpus: undefined },
  });
});

it('an executor’s options become its arguments', () => {
  const given = { device: 'cuda', gpus: [0, 1], split: 'layer', tensorSplit: [3, 1.5], kernels: undefined } as const;
  expect(argumentsOf(EXECUTOR_OPTIONS, given)).toEqual([
    ...['--device', 'cuda', '--gpus', '0,1', '--split', 'layer', '--tensor-split', '3,1.5'],
  ]);
});

it('the value of an option has the type of its row', () => {
  const rows = {
    size: option('<count>', wholeNumber(1), 'a number'),
    wait: preset('<seconds>', seconds(wholeNumber(0)), 2000, 'in milliseconds', {
      flag: 'wait-time',
      defaultText: '2',
    }),
    kind: preset('<kind>', ['oak', 'fir'], 'oak', 'one of a list', { short: '-k' }),
    file: required('<file>', text, 'given'),
    isLoud: flag('true, or missing', { flag: 'loud' }),
    isPlain: flagOrFalse('true or false'),
    cache: flagOff('no cache'),
    spare: flagOnOff('a spare', 'none'),
  };
  expectTypeOf<OptionValues<typeof rows>>().branded.toEqualTypeOf<{
    readonly size?: number | undefined;
    readonly wait: number;
    readonly kind: 'oak' | 'fir';
    readonly file: string;
    readonly isLoud?: boolean | undefined;
    readonly isPlain: boolean;
    readonly cache: boolean;
    readonly spare?: boolean | undefined;
  }>();
  const read = (...args: string[]) => addOptions(new Command(), rows).parse(args, { from: 'user' }).opts();
  expect(read('--file', 'a')).toEqual({ file: 'a', wait: 2000, kind: 'oak', isPlain: false, cache: true });
  expect(read('--file', 'a', '--size', '4', '--wait-time', '3', '-k', 'fir', '--loud', '--is-plain')).toMatchObject({
    size: 4,
    wait: 3000,
    kind: 'fir',
    isLoud: true,
    isPlain: true,
  });
  expect(read('--no-cache', '--no-spare')).toMatchObject({ cache: false, spare: false });
  expect(read('--spare')).toMatchObject({ spare: true });
  expect(withDefaults(rows, { wait: undefined, cache: false })).toEqual({
    wait: 2000,
    kind: 'oak',
    isPlain: false,
    cache: false,
  });
});

/** Tables of all commands. */
const TABLES: readonly OptionRows[] = [
  SERVE_OPTIONS,
  EXECUTOR_OPTIONS,
  INHERITED_OPTIONS,
  EXECUTOR_COMMAND_OPTIONS,
  GENERATE_OPTIONS,
  CHAT_OPTIONS,
  BENCH_OPTIONS,
  BENCH_SERVE_OPTIONS,
  BENCH_KERNELS_OPTIONS,
  INSPECT_OPTIONS,
  DEMO_OPTIONS,
  VERIFY_OPTIONS,
  PULL_OPTIONS,
  ADMIN_OPTIONS,
];

it('no option takes a number that a message, native code or a timer cannot hold', () => {
  const numeric = new Set<string>();
  for (const [name, { type, value: placeholder }] of TABLES.flatMap((rows) => Object.entries(rows))) {
    if (typeof type !== 'function') continue;
    const read = (given: string): readonly number[] => {
      try {
        return [type(given)].flat().filter((value): value is number => typeof value === 'number');
      } catch {
        return [];
      }
    };
    const isFraction = read('0.5').length > 0;
    const most = placeholder === '<bytes>' ? Number.MAX_SAFE_INTEGER : isFraction ? MOST_FLOAT : MOST_INTEGER;
    for (const given of ['7', '2147483647', '2147483648', '4294967296', '3e38', '4e38', '1e300', '9'.repeat(40)]) {
      for (const value of read(given)) {
        numeric.add(name);
        // No timer waits for a number of seconds.
        expect([name, value <= most * (placeholder === '<seconds>' ? 1000 : 1)]).toEqual([name, true]);
      }
    }
  }
  expect(numeric.size).toBeGreaterThan(50);
});

it.each(['', ' ', '1.5', '4294967296', '1e300'])('a count is not "%s"', (given) => {
  expect(() => wholeNumber(0)(given)).toThrow('Give a whole number from 0 to 2147483647.');
});

it('a share that is 0 as a float is not above 0', () => {
  expect(() => positive('1e-300')).toThrow('Give a number above 0.');
});
