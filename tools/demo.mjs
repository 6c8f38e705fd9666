// `npm run demo`: one generation, token by token, through a gateway and an executor process of their own.
//
// The model is $ROCMFORGE_DEMO_MODEL, or the one in models/.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const models = path.join(root, 'models');
const bundled = existsSync(models) ? readdirSync(models).find((name) => name.endsWith('.gguf')) : undefined;
const model = process.env.ROCMFORGE_DEMO_MODEL ?? (bundled && path.join(models, bundled));
if (model === undefined) {
  console.error('demo: no model; set ROCMFORGE_DEMO_MODEL to a GGUF file');
  process.exit(1);
}
const prompt = process.env.ROCMFORGE_DEMO_PROMPT ?? 'Tell me a story about a brave fox.';
console.error(`model: ${path.relative(process.cwd(), model)}\nprompt: ${prompt}\n`);
const chat = process.env.ROCMFORGE_DEMO_MODEL === undefined ? ['--chat'] : [];
const args = [path.join(root, 'dist', 'cli', 'main.js'), 'generate', '--model', model, '--prompt', prompt];
args.push(...chat, '--max-tokens', '200', '--temperature', '0', '--stats');
spawn(process.execPath, args, { stdio: 'inherit' }).on('close', (code) => process.exit(code ?? 1));
