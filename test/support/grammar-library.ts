import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';

type Library = typeof import('@mlc-ai/web-xgrammar');

let library: Library | undefined;

/** The library is a UMD bundle under `type: module`: it is compiled as CommonJS. */
export function grammarLibrary(): Library {
  if (library !== undefined) return library;
  const file = createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar');
  const bundle = new Module(file) as Module & { _compile(source: string, file: string): void };
  bundle._compile(readFileSync(file, 'utf8'), file);
  library = bundle.exports as Library;
  return library;
}
