import { Command } from 'commander';
import { expect, expectTypeOf, it } from 'vitest';
import { completionScript } from '../../src/cli/common/completion.js';
import { addOptions } from '../../src/cli/common/options.js';
import { gatewayOptions } from '../../src/cli/serve/gateway-options.js';
import { readModelOptions } from '../../src/cli/serve/model-options.js';
import { SERVE_OPTIONS } from '../../src/gateway/option-table.js';
import { GATEWAY_OPTIONS } from '../../src/gateway/options.js';
import { argumentsOf, EXECUTOR_OPTIONS } from '../../src/shared/executor-options.js';
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
import { seconds, text, wholeNumber } from '../../src/shared/option-types.js';
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
