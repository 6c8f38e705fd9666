import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { rocmforge, runProgram } from '../support/command-line.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { firstOf } from '../support/run-size.js';

const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
const model = path.join(packageRoot, 'models', 'demo.gguf');
const PROMPT = 'Once upon a time';
const common = ['generate', '--device', 'host', '--model', model, '--max-tokens', '12'];
const greedy = [...common, '--temperature', '0'];
/** Requests to a running gateway, which is faster than one for each. */
let served: readonly string[] = [];
let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway(model);
  served = ['generate', '--address', server.address, '--max-tokens', '12'];
});
afterAll(() => server?.stop());

const lines = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

let text: Promise<string> | undefined;
/** The model's text after {@link PROMPT}. */
const undisturbed = () => (text ??= rocmforge(...greedy, PROMPT).then(({ stdout }) => stdout));

describe('generate', () => {
  it.each([
    ['--prompt -', ['--prompt', '-']],
    ['-', ['-']],
  ])('reads the prompt from stdin by %s', async (_, args) => {
    const { code, stdout } = await runProgram(process.execPath, [main, ...greedy, ...args], PROMPT);
    expect(code).toBe(0);
    expect(stdout).toBe(await undisturbed());
  });

  it('takes stops, of which the first ends the text', async () => {
    const whole = await undisturbed();
    const stop = whole.trim().slice(10, 14);
    const { stdout } = await rocmforge(
      ...served,
      '--temperature',
      '0',
      '--stop',
      'never written',
      '--stop',
      stop,
      PROMPT,
    );
    expect(stdout).toBe(`${whole.slice(0, whole.indexOf(stop))}\n`);
  });

  it('writes several completions one after the other', async () => {
    const args = [...served, '--seed', '5', '--temperature', '1', PROMPT];
    const { stdout } = await rocmforge(...args, '--n', '2');
    const texts = /^\[1 of 2\]\n([\s\S]*)\n\[2 of 2\]\n([\s\S]*)\n$/.exec(stdout);
    expect(texts?.[1]).not.toBe(texts?.[2]);
    // The first of several is what one alone is.
    expect(`${texts?.[1]}\n`).toBe((await rocmforge(...args)).stdout);
    const json = lines((await rocmforge(...args, '-n', '2', '--json')).stdout);
    expect(
      json
        .filter(({ index, text }) => index === 1 && text !== undefined)
        .map(({ text }) => text)
        .join(''),
    ).toBe(texts?.[2]);
    expect(
      json
        .filter(({ finish_reason }) => finish_reason !== undefined)
        .map(({ index }) => index)
        .sort(),
    ).toEqual([0, 1]);
  });

  it('tells log probabilities', async () => {
    const chunks = lines(
      (await rocmforge(...served, '--temperature', '0', '--logprobs', '2', '--json', PROMPT)).stdout,
    );
    expect(chunks[0].logprobs[0].top).toHaveLength(2);
    expect(chunks[0].logprobs[0].logprob).toBeLessThanOrEqual(0);
  });

  it('passes penalties on', async () => {
    const repeating = ['--prompt', 'the cat the cat the cat the cat', '--max-tokens', '30'];
    const { stdout } = await rocmforge(...served, '--temperature', '0', ...repeating);
    for (const penalty of [
      ['--repetition-penalty', '3'],
      ['--frequency-penalty', '2'],
      ['--presence-penalty', '2'],
    ]) {
      expect((await rocmforge(...served, '--temperature', '0', ...repeating, ...penalty)).stdout).not.toBe(stdout);
    }
    const { stderr } = await rocmforge(...served, '--temperature', '0', PROMPT, '--frequency-penalty', '9');
    expect(stderr).toMatch(/frequency_penalty/);
  });

  it('sends a system message to a conversation', async () => {
    const { stdout } = await rocmforge(...served, '--temperature', '0', '--chat', '--json', PROMPT);
    const { stdout: longer } = await rocmforge(
      ...served,
      '--temperature',
      '0',
      '--chat',
      '--system',
      'You tell stories.',
      '--json',
      PROMPT,
    );
    expect(lines(longer).at(-1).prompt_tokens).toBeGreaterThan(lines(stdout).at(-1).prompt_tokens);
  });

  it.each([
    [['--system', 'x', PROMPT], '--system requires --chat'],
    [['--logprobs', '1', PROMPT], '--logprobs requires --json'],
    [['--prompt', 'x', PROMPT], 'give one prompt'],
    [[], 'give one prompt'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await rocmforge(...served, '--temperature', '0', ...args);
    expect(code).toBe(1);
    expect(stderr).toContain(`INVALID_OPTION: ${message}`);
  });

  it('ends without a word when nobody reads on, and leaves nothing behind', async () => {
    // Its own: others make and leave folders where temporary files lie.
    const TMPDIR = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const args = [main, ...greedy, '--max-tokens', '400', '--json', PROMPT];
    const env = { ...process.env, TMPDIR };
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
    let stderr = '';
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    child.stdout.once('data', () => child.stdout.destroy());
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
    expect(readdirSync(TMPDIR)).toEqual([]);
  });
});

describe('the command line', () => {
  // Required options are checked first.
  const commands: readonly (readonly string[])[] = [
    ['serve', '--model', 'x.gguf'],
    ['executor', '--listen', 'unix:/x'],
    ['token', 'name'],
    ['generate'],
    ['chat'],
    ['bench'],
    ['bench', 'serve', '--address', 'x'],
    ['verify'],
    ['synth', '--shape', 'tiny', '--type', 'F16', '--output', 'x'],
    ['inspect', 'x.gguf'],
    ['doctor'],
    ['completion', 'bash'],
  ];
  it.each(firstOf(4, commands))('%s names an option that it does not know', async (...command) => {
    const { code, stderr } = await rocmforge(...command, '--no-such-thing');
    expect(code).toBe(1);
    expect(stderr).toContain("error: unknown option '--no-such-thing'");
  });

  it('refuses more steps under way than the executor and its late masks are built for', async () => {
    const { code, stderr } = await rocmforge('serve', '--model', model, '--pipeline-depth', '3');
    expect(code).toBe(1);
    expect(stderr).toContain('Give a whole number from 1 to 2.');
  });

  let bashScript: ReturnType<typeof rocmforge> | undefined;
  it.each([
    ['rocmforge ', /\bgenerate\b.*\bdoctor\b|\bdoctor\b.*\bgenerate\b/],
    ['rocmforge gen', /^generate$/],
    ['rocmforge bench ', /\bserve\b/],
    ['rocmforge generate --temp', /^--temperature$/],
    ['rocmforge serve --device ', /^auto hip cuda host$/],
    ['rocmforge completion', /^completion$/],
  ])('bash completes "%s"', async (typed, expected) => {
    bashScript ??= rocmforge('completion', 'bash');
    const { stdout: script } = await bashScript;
    const ask = `COMP_WORDS=(${typed}${typed.endsWith(' ') ? '""' : ''}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _rocmforge; echo "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync('bash', ['-c', `${script}\n${ask}`], { encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(stdout.trim()).toMatch(expected);
  });

  it('completes in zsh and fish too', async () => {
    expect((await rocmforge('completion', 'zsh')).stdout).toMatch(/^#compdef rocmforge\n.*bashcompinit/);
    const { stdout } = await rocmforge('completion', 'fish');
    expect(stdout).toMatch(
      /^complete -c rocmforge -f -n 'not __fish_seen_subcommand_from [^']*doctor[^']*' -a doctor -d '/m,
    );
    expect(stdout).toMatch(/-n '__fish_seen_subcommand_from serve[^']*' -l device -x -a 'auto hip cuda host'/);
  });
});
