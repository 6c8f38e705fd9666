import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package's own folder: the nearest above this file that has a package.json. */
export const packageRoot: string = rootAbove(path.dirname(fileURLToPath(import.meta.url)));

function rootAbove(folder: string): string {
  const above = path.dirname(folder);
  return existsSync(path.join(folder, 'package.json')) || above === folder ? folder : rootAbove(above);
}

/** The version of the package. */
export const packageVersion: string = (
  JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8')) as { version: string }
).version;
