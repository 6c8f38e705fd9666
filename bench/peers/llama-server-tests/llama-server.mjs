#!/usr/bin/env node
// Program that llama.cpp's tests start in place of its server: `rocmforge serve` with the options that theirs stand for. Options
// of things that are not built are passed over: their tests fail, and are counted so.
import '../../../tools/temporary-folder.mjs';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
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
  llama3:
    "{%- for m in messages -%}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + (m.content | trim) + '<|eot_id|>' }}" +
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}",
};

function templateFile() {
  const file = options.get('--chat-template-file');
  if (file !== undefined) return file;
  const named = options.get('--chat-template') ?? 'chatml';
  const target = path.join(folder, 'template.jinja');
  writeFileSync(target, NAMED[named] ?? named);
  return target;
}

const sequences = Number(options.get('--parallel') ?? 4);
const context = Number(options.get('--ctx-size') ?? 2048);
const perSequence = options.has('--kv-unified') ? context : Math.floor(context / sequences);

/** The model's file; one with a longer context where it has less: llama.cpp goes beyond with a warning. */
function modelFile() {
  const file = process.env.LLAMA_TESTS_MODEL;
  const bytes = readFileSync(file);
  const name = 'llama.context_length';
  const at = bytes.indexOf(name) + name.length;
  const UINT32 = 4;
  if (at < name.length || bytes.readUInt32LE(at) !== UINT32 || bytes.readUInt32LE(at + 4) >= perSequence) return file;
  bytes.writeUInt32LE(perSequence, at + 4);
  const target = path.join(folder, 'model.gguf');
  writeFileSync(target, bytes);
  return target;
}

/** Models that its router finds in its cache. */
const ROUTED = ['tinygemma3-GGUF:Q8_0', 'test-model-stories260K:F32', 'test-model-stories260K-infill:F32'];
const isRouter = !['--model', '--model-url', '--hf-repo'].some((name) => options.has(name));

/** The options of one model, or of a router's. */
function modelOptions() {
  const file = modelFile();
  const template = templateFile();
  if (isRouter) {
    const names = ROUTED.map((name) => `ggml-org/${name}`);
    return [
      ...names.flatMap((name) => ['--model', `${name}=${file}`, '--model-option', `${name}:chat-template=${template}`]),
      ...['--load', options.has('--no-models-autoload') ? 'on-command' : 'on-demand', '--idle-unload', '3600'],
      ...(options.has('--models-max') ? ['--max-loaded-models', options.get('--models-max')] : []),
    ];
  }
  // There, a set's first is the name.
  const [name, ...aliases] = (options.get('--alias') ?? 'tinyllama-2').split(',').sort();
  return [
    ...['--model', file, '--model-name', name, '--any-model-name', '--chat-template', template],
    ...(aliases.length > 0 ? ['--model-alias', ...aliases] : []),
    ...(options.has('--tags') ? ['--model-tag', ...options.get('--tags').split(',')] : []),
    ...(options.has('--pooling') ? ['--pooling', options.get('--pooling')] : []),
  ];
}

const args = ['serve', ...modelOptions(), '--device', 'host', '--state-dir', folder];
args.push('--listen', `unix:${path.join(folder, 'grpc.sock')}`);
for (const host of options.get('--host').split(',')) {
  args.push('--http-listen', `${host.includes(':') ? `[${host}]` : host}:${options.get('--port')}`);
}
args.push('--seed', options.get('--seed') ?? '42');
if (options.has('--no-ui')) args.push('--no-http-page');
// With programs to run for a page, llama.cpp takes pages of this machine alone.
const origins = options.get('--cors-origins') ?? (options.has('--tools') ? 'localhost' : undefined);
if (origins !== undefined) args.push('--cors-origins', ...origins.split(','));
if (options.has('--batch-size')) args.push('--max-step-tokens', options.get('--batch-size'));
if (options.has('--verbose')) args.push('--http-verbose');
if (options.has('--metrics')) args.push('--http-metrics');
if (options.has('--sleep-idle-seconds')) args.push('--idle-unload', options.get('--sleep-idle-seconds'));
if (options.has('--slots')) args.push('--http-slots');
args.push('--max-sequences', String(sequences));
args.push('--max-context', String(perSequence));
// As there, any template may have tools.
args.push('--tools-fallback');
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
