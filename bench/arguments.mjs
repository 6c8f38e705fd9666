import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/**
 * Arguments of a benchmark, as `parseArgs` of Node returns them. `--help` prints the comment at the beginning of its file and ends with
 * code 0. An option that the benchmark does not have and one that is missing end it with code 2 and the same text.
 *
 * @template {import('node:util').ParseArgsConfig} T
 * @param {string} url `import.meta.url` of the benchmark
 * @param {T} config of `parseArgs`, without `--help`
 * @param {readonly string[]} required options without which it cannot run
 * @returns {ReturnType<typeof parseArgs<T>>}
 */
export function benchArguments(url, config, required = []) {
  const file = fileURLToPath(url);
  const refuse = (/** @type {string} */ message) => {
    console.error(`${path.basename(file)}: ${message}\n\n${headerOf(file)}`);
    process.exit(2);
  };
  try {
    const options = { ...config.options, help: /** @type {const} */ ({ type: 'boolean', default: false }) };
    const parsed = parseArgs({ ...config, options });
    const { help, ...values } = /** @type {Record<string, unknown>} */ (parsed.values);
    if (help) {
      console.log(headerOf(file));
      process.exit(0);
    }
    const missing = required.find((name) => values[name] === undefined);
    if (missing !== undefined) refuse(`--${missing} is missing`);
    return /** @type {ReturnType<typeof parseArgs<T>>} */ ({ ...parsed, values });
  } catch (error) {
    return /** @type {never} */ (refuse(/** @type {Error} */ (error).message));
  }
}

/** The comment at the beginning of a file, without its marks. @param {string} file */
function headerOf(file) {
  const source = readFileSync(file, 'utf8').replace(/^#!.*\n/, '');
  const [comment = ''] = /^(?:\/\/.*\n)+|^\/\*\*[\s\S]*?\*\//.exec(source) ?? [];
  return comment.replace(/^(\/\/ ?|\/\*\*\n?| \*\/?\s?)/gm, '').trim();
}
