import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

/** Kinds of commands: those of an executor, those of a gateway, and all others. */
export type CachedCode = 'executor' | 'gateway' | 'other';

const GATEWAYS: readonly (string | undefined)[] = ['serve', 'generate', 'chat', 'demo', 'bench', 'verify'];

/** Each kind has a cache of the functions that its start needs: reading one takes as long as it is large. */
export function cachedCodeOf(command: string | undefined): CachedCode {
  if (command === 'executor' || command === 'keeper') return 'executor';
  return GATEWAYS.includes(command) ? 'gateway' : 'other';
}

const bundle = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'bundle');

/** File with V8's code cache, which `tools/cache-code.mjs` writes. */
export const cacheFile = (code: CachedCode): string => path.join(bundle, `${code}.cache`);

/** The command's code in one file, compiled. V8 compiles what a cache lacks, or all of it for a cache of another version. */
export class ProgramScript {
  private readonly file = path.join(bundle, 'program.cjs');
  private readonly script: Script;

  /** @throws NodeJS.ErrnoException if the program cannot be read */
  constructor(code: CachedCode) {
    this.script = new Script(readFileSync(this.file, 'utf8'), {
      filename: this.file,
      cachedData: readIfThere(cacheFile(code)),
    });
  }

  /** False if there is no cache, or another version of V8 wrote it. */
  get isCached(): boolean {
    return this.script.cachedDataRejected === false;
  }

  /** Runs the command that the arguments of this process name. */
  async run(): Promise<void> {
    const module = { exports: {} as { run: () => Promise<void> } };
    const wrapper = this.script.runInThisContext() as (...args: unknown[]) => void;
    wrapper(module.exports, createRequire(this.file), module, this.file, bundle);
    await module.exports.run();
  }

  /** Code cache of all functions that were compiled until now. */
  createCache(): Buffer {
    return this.script.createCachedData();
  }
}

function readIfThere(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}
