import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { type FakeGateway, spelled, startFakeGateway } from '../support/fake-gateway.js';

const TEMPLATE =
  '{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_call_id }}\n{% endfor %}' +
  '{# <tool_call> </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "Rome"}}\n</tool_call>\n<tool_call>\n{"name": "clock"}\n</tool_call>';
const TURN = 'Hm.\nI look.\n→ weather({"place": "Rome"})\n→ clock({})\n';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ script: spelled(ANSWER), model: { chatTemplate: TEMPLATE } });
});
afterAll(() => server.stop());

function chat(tools: unknown, ...lines: string[]) {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tools.json');
  writeFileSync(file, JSON.stringify(tools));
  const args = ['chat', '--address', server.address, '--tools', file];
  return runProgram(process.execPath, [path.join(packageRoot, 'dist', 'cli', 'main.js'), ...args], lines.join('\n'));
}

const tools = ['weather', 'clock'].map((name) => ({ type: 'function', function: { name } }));

it('shows what the model thinks and calls, asks for what each call gave, and goes on with that', async () => {
  const { code, stdout } = await chat(tools, 'The weather?', 'sunny', 'noon', '/reset', '/exit', '');
  expect(code).toBe(0);
  expect(stdout).toBe(`> ${TURN}weather> clock> ${TURN}weather> (forgotten)\n> `);
});

it('refuses functions that it cannot read', async () => {
  const { code, stderr } = await chat([{ type: 'function' }]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/INVALID_OPTION: --tools .*tools\[0\]\.function is missing/);
});
