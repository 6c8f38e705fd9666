import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';

interface LibraryGrammar {
  dispose(): void;
}

interface GrammarLibrary {
  readonly Grammar: { fromEBNF(text: string): Promise<LibraryGrammar> };
  readonly Testings: { isGrammarAcceptString(grammar: LibraryGrammar, text: string): Promise<boolean> };
}

let library: GrammarLibrary | undefined;

/** The library is a UMD bundle under `type: module`: it is compiled as CommonJS. */
function load(): GrammarLibrary {
  if (library !== undefined) return library;
  const file = createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar');
  const bundle = new Module(file) as Module & { _compile(source: string, file: string): void };
  bundle._compile(readFileSync(file, 'utf8'), file);
  library = bundle.exports as GrammarLibrary;
  return library;
}

/** Which of the texts the library's matcher takes as a whole. */
export async function acceptedBy(grammar: string, texts: readonly string[]): Promise<string[]> {
  const { Grammar, Testings } = load();
  const read = await Grammar.fromEBNF(grammar);
  const accepted: string[] = [];
  for (const text of texts) if (await Testings.isGrammarAcceptString(read, text)) accepted.push(text);
  read.dispose();
  return accepted;
}
