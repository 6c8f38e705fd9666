import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';

type Library = typeof import('@mlc-ai/web-xgrammar');

/** What `require` does with a file's text; not among the types. */
interface CommonJs {
  readonly exports: unknown;
  _compile(text: string, file: string): void;
}

let loaded: Library | undefined;

/** The grammar library. Its file is CommonJS in a package that says it is none, so `require` refuses it; about 0.1 s. */
export function xgrammar(): Library {
  if (loaded === undefined) {
    const file = createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar');
    const module = new Module(file) as unknown as CommonJs;
    module._compile(readFileSync(file, 'utf8'), file);
    loaded = module.exports as Library;
  }
  return loaded;
}
