import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { formatInspectReport, inspectModel } from '../../../src/cli/inspect/inspect.js';
import { GgufBuilder, tinyLlama } from '../../support/gguf-builder.js';
import { sharedPath } from '../../support/shared-data.js';

const folder = mkdtempSync(join(tmpdir(), 'rocmforge-inspect-'));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, builder: GgufBuilder): string {
  const path = join(folder, name);
  writeFileSync(path, builder.build());
  return path;
}

test('a report summarises a model and survives JSON', () => {
  const report = inspectModel(write('llama.gguf', tinyLlama({ 'tokenizer.chat_template': '{{ messages }}' })));
  expect(report).toMatchObject({
    ggufVersion: 3,
    model: { architecture: 'llama', contextLength: 128 },
    problem: expect.stringContaining('"llama.block_count" is 2, but the file has tensors of 0 blocks'),
    parameterCount: 64 * 96 + 64,
    tensorTypes: [
      { type: 'Q8_0', tensors: 1, elements: 6144, bytes: 6528 },
      { type: 'F32', tensors: 1, elements: 64, bytes: 256 },
    ],
    tokenizer: { model: 'gpt2', preTokenizer: null, tokens: 96, merges: 0, bosTokenId: null, eosTokenId: null },
    hasChatTemplate: true,
  });
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);
});

test('the text of a report has a summary, the types and a line a tensor', () => {
  const report = inspectModel(write('text.gguf', tinyLlama()));
  const lines = formatInspectReport({ ...report, path: 'text.gguf', fingerprint: 'f00d' }).split('\n');
  const embedding = report.tensors[0]!.offset;
  expect(lines).toEqual([
    expect.stringMatching(/^file {11}text\.gguf \(\d+\.\d KiB, GGUF v3\)$/),
    'fingerprint    f00d',
    'name           tiny llama',
    'architecture   llama',
    'context        128 tokens',
    'layers         2, hidden 64, ffn 160',
    'attention      4 heads, 2 kv heads, head_dim 16',
    'rope           16 dims, base 10000',
    'vocabulary     96 (tensor)',
    expect.stringMatching(/^loads {10}no: .*"llama\.block_count" is 2/),
    'parameters     6.2 K in 2 tensors',
    'tokenizer      gpt2, 96 tokens, 0 merges, bos -, eos -',
    'chat template  no',
    '',
    'type  tensors  elements  size',
    'Q8_0  1        6.1 K     6.4 KiB',
    'F32   1        64        256 B',
    '',
    'tensor              type  dims     offset  size',
    `token_embd.weight   Q8_0  64 × 96  ${embedding}    6.4 KiB`,
    `output_norm.weight  F32   64       ${embedding + 6528}    256 B`,
    '',
  ]);
});

test.each([
  ['{{ tools }}<tool_call>{{ c }}</think>', 'yes; reasoning parser think; tool parser hermes'],
  ['{{ tools }}[TOOL_CALLS]', 'yes; reasoning parser none; tool parser mistral'],
  [
    '{{ messages }}<tool_call>',
    'yes; reasoning parser none; tools are refused: they are not supported by the chat template',
  ],
  [
    '{{ tools }}',
    'yes; reasoning parser none; tools are refused: they are not supported: the chat template does not show how',
  ],
])('of a chat template it is told how answers are read: %s', (template, words) => {
  const file = write('answers.gguf', tinyLlama().set('tokenizer.chat_template', template));
  expect(formatInspectReport(inspectModel(file))).toContain(words);
});

test('a sound GGUF that is no transformer is reported with the reason', () => {
  const report = inspectModel(write('other.gguf', new GgufBuilder().set('general.architecture', 'clip')));
  expect(report).toMatchObject({ model: null, tokenizer: null, tensors: [] });
  expect(formatInspectReport(report)).toMatch(/^loads .*"clip\.context_length" is missing$/m);
});

test('names in a file cannot steer the terminal', () => {
  const report = inspectModel(write('hostile.gguf', new GgufBuilder().tensor('\x1b[2Jgone', { dims: [1] })));
  expect(formatInspectReport(report)).not.toContain('\x1b');
});

test('a missing file is an error, not a report', () => {
  expect(() => inspectModel(join(folder, 'missing.gguf'))).toThrow(
    expect.objectContaining({ reason: 'MODEL_FILE_UNREADABLE' }),
  );
});

const qwen = sharedPath('data/models/tiny-qwen2-q8_0.gguf');
test.skipIf(qwen === undefined)('a real vocabulary and chat template are summarised', () => {
  expect(inspectModel(qwen!)).toMatchObject({
    model: { architecture: 'qwen2', vocabularySize: 151_936, vocabularySource: 'tensor', headDim: 32 },
    tokenizer: { model: 'gpt2', preTokenizer: 'qwen2', tokens: 151_936, merges: 151_387, eosTokenId: 151_643 },
    hasChatTemplate: true,
  });
});
