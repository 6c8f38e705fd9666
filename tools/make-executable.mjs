// tsc writes files without the executable bit; `bin` needs it.
import { chmodSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

chmodSync(path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'dist', 'cli', 'main.js'), 0o755);
