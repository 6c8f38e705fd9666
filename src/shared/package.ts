import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package's own folder: two levels above this file, in `src/` and in `dist/` alike. */
export const packageRoot: string = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..');

/** The version of the package. */
export const packageVersion: string = (
  JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;
