// Runs the tests of llama.cpp's server against the HTTP server, and counts by file: passed, failed, not applicable.
//
//   npm run build && node bench/peers/llama-server-tests/run.mjs --tests LLAMA_CPP/tools/server/tests --model stories260K.gguf
//     [--python /usr/bin/python3] [--only completion,tokenize] [--tests-like EXPRESSION] [--port 18077] [--failures]
//
// The python needs pytest, requests and filelock. Nothing of llama.cpp is part of this repository.
import '../../../tools/temporary-folder.mjs';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: {
    tests: { type: 'string' },
    model: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    only: { type: 'string' },
    'tests-like': { type: 'string' },
    port: { type: 'string', default: '18077' },
    failures: { type: 'boolean', default: false },
  },
});
const tests = path.resolve(values.tests);
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-llama-tests-'));
const FILE_LIMIT_MS = 600_000;
const { port } = values;

/** Why tests cannot be held against another server, by `file::test`; what is not here counts. */
const NOT_APPLICABLE = [
  [/^test_(lora|slot_save|vision_api)::/, 'LoRA, slot files, vision'],
  [/^test_speculative::/, 'a draft model that cannot be had'],
  [/^test_basic::test_load_split_model/, 'a model that cannot be had'],
  [/^test_completion::test_completion_stream_with_openai_library_stops/, 'a model that cannot be had'],
  [
    /^test_tool_call::(test_completion_with_required_tool_real_model|test_weather|test_calc_result|test_thoughts|test_hello_world)/,
    'models that cannot be had',
  ],
  [/^test_compat_anthropic::test_anthropic_thinking_with_reasoning_model/, 'a model that cannot be had'],
  [/^test_compat_anthropic::.*(vision|with_image)/, 'media'],
  [
    /^test_compat_oai_responses::test_responses_(stream_)?with_openai_library/,
    'a text at temperature 0.8, of llama.cpp’s generator',
  ],
  [/^test_completion::test_completion(_stream)?\[/, 'a text at temperature 0.8, of llama.cpp’s generator'],
  [/^test_completion::test_completion_stream_vs_non_stream/, 'a text at temperature 0.8, of llama.cpp’s generator'],
  [
    /^test_completion::test_completion_(stream_)?with_openai_library/,
    'a text at temperature 0.8, of llama.cpp’s generator',
  ],
  [/^test_chat_completion::test_chat_completion(_stream)?\[/, 'a text at temperature 0.8, of llama.cpp’s generator'],
  [
    /^test_chat_completion::test_chat_completion_with_openai_library/,
    'a text at temperature 0.8, of llama.cpp’s generator',
  ],
  [/^test_(completion|chat_completion)::.*(mtmd|mtm)/, 'media'],
  [/^test_security::test_local_media_file/, 'media'],
];

const only = values.only?.split(',');
const files = readdirSync(path.join(tests, 'unit'))
  .filter((name) => /^test_.*\.py$/.test(name))
  .map((name) => name.slice(0, -3))
  .filter((name) => only === undefined || only.includes(name.slice('test_'.length)));

const unescaped = (text) =>
  text.replace(/&(lt|gt|quot|amp|#10);/g, (_, name) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#10': '\n' })[name]);

/** The cases of a JUnit report. */
function casesOf(xml) {
  return [...xml.matchAll(/<testcase ([^>]*?)(\/>|>([\s\S]*?)<\/testcase>)/g)].map(([, attributes, , body = '']) => {
    const name = unescaped(/ name="([^"]*)"/.exec(` ${attributes}`)?.[1] ?? '?');
    const failure = /<(failure|error) message="([^"]*)"/.exec(body);
    const isSkipped = body.includes('<skipped');
    return { name, failure: failure && unescaped(failure[2]).split('\n')[0], isSkipped };
  });
}

// Whatever is there would answer in place of the servers that the tests start.
const probed = Number(port);
await new Promise((resolve, reject) => {
  const probe = createServer().once('error', () => reject(new Error(`port ${port} is in use`)));
  probe.listen(probed, '127.0.0.1', () => probe.close(resolve));
});

const rows = [];
const failures = [];
for (const file of files) {
  const report = path.join(folder, `${file}.xml`);
  spawnSync(
    values.python,
    [
      ...[
        '-m',
        'pytest',
        '-q',
        '-p',
        'no:cacheprovider',
        '-p',
        'applicable',
        `--junitxml=${report}`,
        `unit/${file}.py`,
      ],
      ...(values['tests-like'] === undefined ? [] : ['-k', values['tests-like']]),
    ],
    {
      cwd: tests,
      timeout: FILE_LIMIT_MS,
      stdio: 'ignore',
      env: {
        ...process.env,
        PORT: port,
        PYTHONPATH: path.join(here, 'stubs'),
        LLAMA_SERVER_BIN_PATH: path.join(here, 'llama-server.mjs'),
        LLAMA_TESTS_MODEL: path.resolve(values.model),
        LLAMA_TESTS_NOT_APPLICABLE: NOT_APPLICABLE.map(([pattern]) => pattern.source).join('\n'),
        SLOW_TESTS: '1',
      },
    },
  );
  const counts = { passed: 0, failed: 0, notApplicable: 0 };
  let cases = [];
  try {
    cases = casesOf(readFileSync(report, 'utf8'));
  } catch {
    failures.push(`${file}: no report within ${FILE_LIMIT_MS / 1000} s`);
  }
  for (const { name, failure, isSkipped } of cases) {
    const id = `${file}::${name}`;
    if (failure === null && !isSkipped) counts.passed += 1;
    else if (isSkipped || NOT_APPLICABLE.some(([pattern]) => pattern.test(id))) counts.notApplicable += 1;
    else {
      counts.failed += 1;
      failures.push(`${id}: ${failure.slice(0, 160)}`);
    }
  }
  rows.push([file, counts]);
  console.error(file, JSON.stringify(counts));
}

const sum = (name) => rows.reduce((total, [, counts]) => total + counts[name], 0);
console.log('| file | passed | failed | not applicable |\n| --- | --- | --- | --- |');
for (const [file, { passed, failed, notApplicable }] of rows) {
  console.log(`| ${file} | ${passed} | ${failed} | ${notApplicable} |`);
}
console.log(`| all | ${sum('passed')} | ${sum('failed')} | ${sum('notApplicable')} |`);
if (values.failures) console.log(`\n${failures.join('\n')}`);
