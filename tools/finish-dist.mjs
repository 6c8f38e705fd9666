// Completes dist/ after tsc, which copies no file that is not TypeScript, and writes without the executable bit that
// `bin` needs.
import { chmodSync, copyFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const FILES = [path.join('cli', 'verify', 'predicted-speeds.json')];

for (const file of FILES) copyFileSync(path.join(root, 'src', file), path.join(root, 'dist', file));
chmodSync(path.join(root, 'dist', 'cli', 'main.js'), 0o755);
