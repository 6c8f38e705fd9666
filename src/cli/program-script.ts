import { createHash } from 'node:crypto';
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

/** File of a cache, which `tools/cache-code.mjs` writes, in the folder of the program. */
export const cacheFile = (code: CachedCode, folder = bundle): string => path.join(folder, `${code}.cache`);

/** Bytes of a hash before V8's data. */
const HASH_BYTES = 32;
/** V8 checks the version and the length of a program's text alone, and runs damaged data: both are hashed here, in some 5 ms. */
const hashOf = (program: Buffer, data: Buffer): Buffer => createHash('sha256').update(program).update(data).digest();

/** The command's code in one file, compiled. V8 compiles what a cache lacks, and all of it where there is none that fits. */
export class ProgramScript {
  private readonly file: string;
  private readonly program: Buffer;
  private readonly script: Script;

  /**
   * @param folder of the program and its caches
   * @throws NodeJS.ErrnoException if the program cannot be read
   */
  constructor(code: CachedCode, folder = bundle) {
    this.file = path.join(folder, 'program.cjs');
    this.program = readFileSync(this.file);
    this.script = new Script(this.program.toString('utf8'), {
      filename: this.file,
      cachedData: readCache(cacheFile(code, folder), this.program),
    });
  }

  /** False if there is no cache of this program, or another version of V8 wrote it. */
  get isCached(): boolean {
    return this.script.cachedDataRejected === false;
  }

  /** Runs the command that the arguments of this process name. */
  async run(): Promise<void> {
    const module = { exports: {} as { run: () => Promise<void> } };
    const wrapper = this.script.runInThisContext() as (...args: unknown[]) => void;
    wrapper(module.exports, createRequire(this.file), module, this.file, path.dirname(this.file));
    await module.exports.run();
  }

  /** Content of a cache file with all functions that were compiled until now. */
  createCache(): Buffer {
    const data = this.script.createCachedData();
    return Buffer.concat([hashOf(this.program, data), data]);
  }
}

/** V8's data; undefined where none of this program can be read. */
function readCache(file: string, program: Buffer): Buffer | undefined {
  let content: Buffer;
  try {
    content = readFileSync(file);
  } catch {
    return undefined;
  }
  const data = content.subarray(HASH_BYTES);
  return hashOf(program, data).equals(content.subarray(0, HASH_BYTES)) ? data : undefined;
}
