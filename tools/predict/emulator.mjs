// The emulator's process, for launches whose buffers lie in a file that both have mapped.
import { execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'emulator', 'serve.py');
/** Threads of a block in every AMD code object. */
export const BLOCK = 256;
const MOST_INSTRUCTIONS = 20_000_000;

/** Code objects of a folder, by kernel. */
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

  /** Runs the first block of a launch, the last and two between them. @param latency of hardware.mjs @returns its census, see census.py */
  count({ kernel, grid, words }, latency) {
    const bytesOf = ({ bytes }, i) => Buffer.from(words.buffer, words.byteOffset + 8 * i, bytes);
    return this.run(
      { kernel, grid, block: [BLOCK, 1, 1], arguments: this.kernels[kernel].arguments.map(bytesOf) },
      latency,
    );
  }

  /** As count() does, of arguments as bytes and blocks of any shape; `dynamicLds` bytes of LDS beyond the kernel's own. */
  async run({ kernel, grid, block, arguments: bytes, dynamicLds = 0 }, latency) {
    const most = grid.reduce((product, dim) => product * dim, 1);
    const wanted =
      most <= 4
        ? Array.from({ length: most }, (_, i) => i)
        : [0, Math.floor(most / 3), Math.floor((2 * most) / 3), most - 1];
    const blocks = wanted.map((at) => [
      at % grid[0],
      Math.floor(at / grid[0]) % grid[1],
      Math.floor(at / (grid[0] * grid[1])),
    ]);
    const request = {
      ...{ file: path.join(this.folder, this.kernels[kernel].file), kernel, grid, block, order: 'fwd' },
      ...{ budget: MOST_INSTRUCTIONS, blocks, counts: true, latency, dynamicLds },
      arguments: bytes.map((argument) => ({ hex: argument.toString('hex') })),
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
