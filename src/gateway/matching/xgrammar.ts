import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';

type Library = typeof import('@mlc-ai/web-xgrammar');

/** What `require` does with a file's text; not among the types. */
interface CommonJs {
  readonly exports: unknown;
  _compile(text: string, file: string): void;
}

let loaded: Library | undefined;
let memory: { readonly buffer: ArrayBuffer } | undefined;

/** Bytes of the library's heap, which never shrinks; 0 before its first use. */
export const heapBytes = (): number => memory?.buffer.byteLength ?? 0;

/** What is used of the global of that name; its types come with those of browsers alone. */
interface WebAssemblyGlobal {
  readonly Memory: abstract new () => { readonly buffer: ArrayBuffer };
  instantiate(...given: unknown[]): Promise<{ readonly instance: { readonly exports: Record<string, unknown> } }>;
}

/** The library does not tell of its memory, so it is taken from the exports of its module. */
function captureMemory(): void {
  const { WebAssembly: wasm } = globalThis as unknown as { readonly WebAssembly: WebAssemblyGlobal };
  const { instantiate } = wasm;
  wasm.instantiate = async (...given) => {
    const result = await instantiate(...given);
    memory = Object.values(result.instance.exports).find((each) => each instanceof wasm.Memory);
    wasm.instantiate = instantiate;
    return result;
  };
}

/** The grammar library. Its file is CommonJS in a package that says it is none, so `require` refuses it; about 0.1 s. */
export function xgrammar(): Library {
  if (loaded === undefined) {
    const file = createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar');
    captureMemory();
    const module = new Module(file) as unknown as CommonJs;
    module._compile(readFileSync(file, 'utf8'), file);
    loaded = module.exports as Library;
  }
  return loaded;
}
