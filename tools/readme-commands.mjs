import { readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Every command in the README's fenced blocks, with the section it is in.
 *
 * @param {string} root folder of the README
 */
export function commandsOfReadme(root) {
  const found = [];
  let section = '';
  /** @type {string[] | undefined} */
  let block;
  for (const line of readFileSync(path.join(root, 'README.md'), 'utf8').split('\n')) {
    if (line.startsWith('## ')) section = line.slice(3);
    if (!line.startsWith('```')) {
      block?.push(line);
    } else if (block === undefined) {
      block = [];
    } else {
      found.push(...commandsOf(block).map((command) => ({ section, command })));
      block = undefined;
    }
  }
  return found;
}

/** Lines that end in a backslash go on; a comment is none of the command. Drawings are no commands. */
function commandsOf(lines) {
  const joined = lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n');
  return joined.map((line) => line.replace(/\s+# .*$/, '').trim()).filter((line) => /^(npm|npx|node|curl) /.test(line));
}
