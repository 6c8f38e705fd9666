import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from '@typescript/typescript6';

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url));
const SOURCES = ['src/shared', 'src/gateway/tokenizer', 'src/gateway/chat', 'src/gateway/request', 'src/gateway/api'];

/**
 * Compiles what the encode worker imports into a folder of its own, so that a test needs no build and cannot meet an old
 * one: threads run JavaScript only. Types are not checked here.
 */
export function compileWorker(): { readonly file: string; readonly remove: () => void } {
  // Inside the repository, where the worker finds its packages.
  mkdirSync(join(REPOSITORY, 'build'), { recursive: true });
  const root = mkdtempSync(join(REPOSITORY, 'build/test-worker-'));
  for (const folder of SOURCES) {
    for (const name of readdirSync(join(REPOSITORY, folder), { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts')) continue;
      const { outputText } = ts.transpileModule(readFileSync(join(REPOSITORY, folder, name), 'utf8'), {
        compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true },
      });
      const target = join(root, folder.replace('src/', ''), name.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
  }
  return {
    file: join(root, 'gateway/api/encode-worker.js'),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
