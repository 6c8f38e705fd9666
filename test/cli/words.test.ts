import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from '@typescript/typescript6';
import { describe, expect, it } from 'vitest';
import { ERROR_HELP } from '../../src/shared/error-help.js';
import { packageRoot } from '../../src/shared/package.js';
import { DIALECT } from '../../tools/words.mjs';
import { rocmforge } from '../support/command-line.js';

const dialectOf = (text: string): string | undefined => DIALECT.exec(text)?.[0];

/** The commands that a help text lists. */
function commandsOf(help: string): readonly string[] {
  const [, list = ''] = /^Commands:\n((?: .*\n?)+)/m.exec(help) ?? [];
  return [...list.matchAll(/^ {2}(\S+)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
}

/** The help of a command and of all below it, by the words of the command. */
async function helpOf(words: readonly string[]): Promise<readonly (readonly [string, string])[]> {
  const { code, stdout } = await rocmforge(...words, '--help');
  expect(code).toBe(0);
  const found: (readonly [string, string])[] = [[words.join(' '), stdout]];
  for (const name of commandsOf(stdout)) found.push(...(await helpOf([...words, name])));
  return found;
}

/** Texts of the messages of `new RocmForgeError(…)` and `new InvalidArgumentError(…)` in a source, as far as they are literals. */
function messagesOf(file: string, source: string): readonly string[] {
  const found: string[] = [];
  const literals = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      found.push(node.text);
    }
    ts.forEachChild(node, literals);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && ts.isIdentifier(node.expression)) {
      const name = node.expression.text;
      const message = name === 'RocmForgeError' ? node.arguments?.[1] : node.arguments?.[0];
      if (/^(?:RocmForgeError|InvalidArgumentError)$/.test(name) && message !== undefined) literals(message);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true));
  return found;
}

describe('the words of help and errors are those of the field', () => {
  it('in the help of every command, where every option and argument has a text', async () => {
    const helps = await helpOf([]);
    expect(helps.map(([words]) => words)).toEqual(expect.arrayContaining(['serve', 'bench serve', 'bench kernels']));
    expect(helps.flatMap(([words, text]) => (dialectOf(text) ? [`${words}: ${dialectOf(text)}`] : []))).toEqual([]);
    // A flag with no text beside it and none on the next line; a default or a list of choices is not one.
    const bare = helps.flatMap(([words, text]) =>
      [
        ...text
          .replaceAll(/\((?:choices|default)[^)]*\)/g, '')
          .matchAll(/^ {2}(-\S.*?)(?: {2,}.*)?\n(?= {0,3}\S|\n|$)/gm),
      ]
        .filter(([line]) => !/\S {2,}\S/.test(line.trim()))
        .map(([, flag]) => `${words} ${flag}`),
    );
    expect(bare).toEqual([]);
  });

  it('in the meaning and the remedy of every error reason', () => {
    const texts = Object.values(ERROR_HELP).flatMap(({ meaning, remedy }) => [meaning, remedy]);
    expect(texts.filter(dialectOf)).toEqual([]);
  });

  it('in the message of every error that a source throws', () => {
    const src = path.join(packageRoot, 'src');
    const messages = readdirSync(src, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.includes('generated'))
      .flatMap((file) =>
        messagesOf(file, readFileSync(path.join(src, file), 'utf8')).map((text) => `${file}: ${text}`),
      );
    expect(messages.length).toBeGreaterThan(200);
    expect(messages.filter((text) => dialectOf(text.slice(text.indexOf(': '))))).toEqual([]);
  });
});
