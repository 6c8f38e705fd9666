#!/usr/bin/env node
// Program that llama.cpp's tests start in place of its server: `rocmforge serve` with the options that theirs stand for. Options
// of things that are not built are passed over: their tests fail, and are counted so.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-llama-tests-'));

const options = new Map();
const given = process.argv.slice(2);
given.forEach((name, i) => {
  const next = given[i + 1];
  if (name.startsWith('-')) options.set(name, next === undefined || /^--?[a-z]/i.test(next) ? true : next);
});

/** llama.cpp's template for a model without one. */
const CHATML =
  "{%- for message in messages -%}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}" +
  "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

/** Templates that it knows by a name. */
const NAMED = {
  chatml: CHATML,
  'command-r':
    "{%- for m in messages -%}{{ '<|START_OF_TURN_TOKEN|><|' + ({'user': 'USER', 'assistant': 'CHATBOT', 'system': 'SYSTEM'}[m.role]) + '_TOKEN|>' }}" +
    "{{ m.content | trim }}{{ '<|END_OF_TURN_TOKEN|>' }}{%- endfor -%}" +
    "{%- if add_generation_prompt -%}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif -%}",
};

function templateFile() {
  const file = options.get('--chat-template-file');
  if (file !== undefined) return file;
  const named = options.get('--chat-template') ?? 'chatml';
  const target = path.join(folder, 'template.jinja');
  writeFileSync(target, NAMED[named] ?? named);
  return target;
}

/** The context of stories260K's file: llama.cpp goes beyond with a warning. */
const MOST_CONTEXT = 512;
const sequences = Number(options.get('--parallel') ?? 4);
const context = Math.min(MOST_CONTEXT, Number(options.get('--ctx-size') ?? 2048));
const args = ['serve', '--model', process.env.LLAMA_TESTS_MODEL, '--device', 'host', '--state-dir', folder];
args.push('--listen', `unix:${path.join(folder, 'grpc.sock')}`);
args.push('--http-listen', `${options.get('--host')}:${options.get('--port')}`);
// There, a set's first is the name.
const [name, ...aliases] = (options.get('--alias') ?? 'tinyllama-2').split(',').sort();
args.push('--model-name', name, '--any-model-name', '--seed', options.get('--seed') ?? '42');
if (aliases.length > 0) args.push('--model-alias', ...aliases);
if (options.has('--tags')) args.push('--model-tag', ...options.get('--tags').split(','));
if (options.has('--no-ui')) args.push('--no-http-page');
// With programs to run for a page, llama.cpp takes pages of this machine alone.
const origins = options.get('--cors-origins') ?? (options.has('--tools') ? 'localhost' : undefined);
if (origins !== undefined) args.push('--cors-origins', ...origins.split(','));
if (options.has('--batch-size')) args.push('--max-step-tokens', options.get('--batch-size'));
if (options.has('--verbose')) args.push('--http-verbose');
if (options.has('--metrics')) args.push('--http-metrics');
if (options.has('--pooling')) args.push('--pooling', options.get('--pooling'));
if (options.has('--sleep-idle-seconds')) args.push('--idle-unload', options.get('--sleep-idle-seconds'));
if (options.has('--slots')) args.push('--http-slots');
args.push('--max-sequences', String(sequences), '--chat-template', templateFile());
args.push('--max-context', String(options.has('--kv-unified') ? context : Math.floor(context / sequences)));
// Variables that its templates always receive, by `--reasoning` as well.
args.push('--template-date', '--chat-template-kwargs');
args.push(JSON.stringify({ enable_thinking: options.get('--reasoning') !== 'off' }));
if (options.has('--api-key')) {
  const tokens = path.join(folder, 'tokens');
  writeFileSync(tokens, `tests sha256:${createHash('sha256').update(options.get('--api-key')).digest('hex')}\n`);
  args.push('--token-file', tokens);
}

const child = spawn(process.execPath, [path.join(root, 'dist', 'cli', 'main.js'), ...args], {
  stdio: 'inherit',
  env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'silent' },
});
child.on('exit', (code) => process.exit(code ?? 1));
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill('SIGKILL'));
