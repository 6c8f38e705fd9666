// The emulator's process, for launches whose buffers lie in a file that both have mapped.
import { execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'emulator', 'serve.py');
/** Threads of a block in every AMD code object. */
export const BLOCK = 256;
const MOST_INSTRUCTIONS = 20_000_000;

/** What the code objects of a folder hold, by kernel. */
export const describe = (folder) =>
  JSON.parse(execFileSync('python3', [SERVER, '--describe', folder], { encoding: 'utf8', maxBuffer: 1 << 26 }));

export class Emulator {
  #child;
  #lines;

  /** @param memory file, address and bytes */
  constructor(folder, kernels, { file, address, bytes }) {
    this.folder = folder;
    this.kernels = kernels;
    this.#child = spawn('python3', [SERVER, '--memory', `${file}:${address}:${bytes}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** Runs the first and the last block of a launch. @param latency of hardware.mjs @returns its census, see census.py */
  async count({ kernel, grid, words }, latency) {
    const { file, arguments: described } = this.kernels[kernel];
    const last = grid.map((blocks) => blocks - 1);
    const blocks = last.every((at) => at === 0) ? [[0, 0, 0]] : [[0, 0, 0], last];
    const request = {
      ...{ file: path.join(this.folder, file), kernel, grid, block: BLOCK, order: 'fwd', budget: MOST_INSTRUCTIONS },
      ...{ blocks, counts: true, latency },
      arguments: described.map(({ bytes }, i) => ({
        hex: Buffer.from(words.buffer, words.byteOffset + 8 * i, bytes).toString('hex'),
      })),
    };
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the emulator ended');
    const answer = JSON.parse(value);
    if (answer.error !== undefined) throw new Error(`${kernel}: ${answer.error}`);
    return answer.census;
  }

  close() {
    this.#child.stdin.end();
  }
}
