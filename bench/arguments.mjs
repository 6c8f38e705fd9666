import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/**
 * Options of a benchmark. `--help` prints the comment at the beginning of its file and ends; so do, with code 2, an option that it does
 * not have and one that is missing.
 *
 * @param {string} url `import.meta.url` of the benchmark
 * @param {import('node:util').ParseArgsConfig['options']} options
 * @param {readonly string[]} required
 */
export function argumentsOf(url, options, required = []) {
  const file = fileURLToPath(url);
  const end = (/** @type {string | undefined} */ message) => {
    const [comment = ''] = /^(?:\/\/.*\n)+|^\/\*\*[\s\S]*?\*\//.exec(readFileSync(file, 'utf8')) ?? [];
    const usage = comment.replace(/^(\/\/ ?|\/\*\*\n?| \*\/?\s?)/gm, '').trim();
    console.error(message === undefined ? usage : `${path.basename(file)}: ${message}\n\n${usage}`);
    process.exit(message === undefined ? 0 : 2);
  };
  try {
    const { values } = parseArgs({ options: { ...options, help: { type: 'boolean', default: false } } });
    if (values.help) end(undefined);
    const missing = required.find((name) => values[name] === undefined);
    if (missing !== undefined) end(`--${missing} is missing`);
    return values;
  } catch (error) {
    return end(/** @type {Error} */ (error).message);
  }
}
