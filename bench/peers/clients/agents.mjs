// Coding agents that ../clients.mjs starts: what the scripted model says to each, and how it is configured.
import { writeFileSync } from 'node:fs';
import path from 'node:path';

// As the grammar of strict calls has it: the executor's script must be allowed by it.
export const call = (name, args, before = 'I act.\n') =>
  `${before}<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${JSON.stringify(args)}}\n</tool_call>`;

/** Task of an agent, and how it is started. */
export const AGENTS = {
  'Claude Code': {
    package: '@anthropic-ai/claude-code',
    turns: (file) => [
      'A title.',
      call('Write', { file_path: file, content: 'one\ntwo\n' }),
      call('Read', { file_path: file }),
      call('Edit', { file_path: file, old_string: 'two', new_string: 'three' }),
      call('Read', { file_path: file }),
      'Done: the file is edited.',
    ],
    start: (base) => {
      const args = ['-p', 'Edit the note.', '--model', 'claude-sonnet-4-5', '--output-format', 'text'];
      const allowed = ['--allowedTools', 'Write,Read,Edit', '--permission-mode', 'acceptEdits'];
      const env = { ANTHROPIC_BASE_URL: base, ANTHROPIC_AUTH_TOKEN: 'none', DISABLE_AUTOUPDATER: '1' };
      return {
        program: 'claude',
        args: [...args, ...allowed],
        env: { ...env, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
      };
    },
  },
  'Codex CLI': {
    package: '@openai/codex',
    turns: (file) => [
      'A title.',
      call('exec_command', { cmd: `printf 'one\\ntwo\\n' > ${file}` }),
      call('exec_command', { cmd: `cat ${file}` }),
      call('exec_command', { cmd: `sed -i s/two/three/ ${file}` }),
      call('exec_command', { cmd: `cat ${file}` }),
      'Done: the file is edited.',
    ],
    start: (base) => {
      const provider = `{name="rocmforge",base_url="${base}/v1",wire_api="responses"}`;
      const config = ['-c', 'model="demo"', '-c', 'model_provider="rf"', '-c', `model_providers.rf=${provider}`];
      const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
      return { program: 'codex', args: ['exec', ...flags, ...config, 'Edit the note.'], env: {} };
    },
  },
  opencode: {
    package: 'opencode-ai',
    // It asks for a title in a request of its own, beside the first.
    apart: 1,
    turns: (file) => [
      'A title.',
      call('write', { filePath: file, content: 'one\ntwo\n' }),
      call('read', { filePath: file }),
      call('edit', { filePath: file, oldString: 'two', newString: 'three' }),
      call('read', { filePath: file }),
      'Done: the file is edited.',
    ],
    start: (base, folder) => {
      const provider = {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${base}/v1`, apiKey: 'none' },
        models: { demo: { name: 'demo', tool_call: true, limit: { context: 200_000, output: 4096 } } },
      };
      writeFileSync(
        path.join(folder, 'opencode.json'),
        JSON.stringify({ provider: { rf: provider }, autoupdate: false, share: 'disabled' }),
      );
      return { program: 'opencode', args: ['run', '--model', 'rf/demo', 'Edit the note.'], env: {} };
    },
  },
  'Qwen Code': {
    package: '@qwen-code/qwen-code',
    turns: (file) => [
      'A title.',
      call('write_file', { file_path: file, content: 'one\ntwo\n' }),
      call('read_file', { file_path: file }),
      call('edit', { file_path: file, old_string: 'two', new_string: 'three' }),
      call('read_file', { file_path: file }),
      'Done: the file is edited.',
    ],
    start: (base) => ({
      program: 'qwen',
      args: ['-p', 'Edit the note.', '--yolo', '--auth-type', 'openai'],
      env: { OPENAI_API_KEY: 'none', OPENAI_BASE_URL: `${base}/v1`, OPENAI_MODEL: 'demo' },
    }),
  },
  Continue: {
    package: '@continuedev/cli',
    turns: (file) => [
      'A title.',
      call('Write', { filepath: file, content: 'one\ntwo\n' }),
      call('Read', { filepath: file }),
      call('Edit', { file_path: file, old_string: 'two', new_string: 'three' }),
      call('Read', { filepath: file }),
      'Done: the file is edited.',
    ],
    start: (base, folder) => {
      const model = { name: 'demo', provider: 'openai', model: 'demo', apiBase: `${base}/v1`, apiKey: 'none' };
      // JSON is YAML.
      const config = {
        name: 'rf',
        version: '0.0.1',
        schema: 'v1',
        models: [{ ...model, roles: ['chat'], capabilities: ['tool_use'] }],
      };
      const file = path.join(folder, 'continue.yaml');
      writeFileSync(file, JSON.stringify(config));
      const env = { CONTINUE_TELEMETRY_ENABLED: '0', CONTINUE_METRICS_ENABLED: '0' };
      return { program: 'cn', args: ['-p', 'Edit the note.', '--config', file, '--auto'], env };
    },
  },
  Cline: {
    package: 'cline',
    turns: (file) => [
      'A title.',
      call('editor', { path: file, new_text: 'one\ntwo\n' }),
      call('read_files', { files: [{ path: file }] }),
      call('editor', { path: file, old_text: 'two', new_text: 'three' }),
      call('read_files', { files: [{ path: file }] }),
      'Done: the file is edited.',
    ],
    prepare: (base) => [
      'auth',
      '--provider',
      'openai',
      '--apikey',
      'none',
      '--modelid',
      'demo',
      '--baseurl',
      `${base}/v1`,
    ],
    start: () => ({ program: 'cline', args: ['Edit the note.'], env: { CLINE_TELEMETRY_DISABLED: '1' } }),
  },
};
