/**
 * Time to read the header of a GGUF file, next to decoding as many short strings from one buffer, which any
 * reader has to do at least. Processor milliseconds, the least of six runs.
 *
 *     npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
 *     node build/bench/bench/reader.js model.gguf ...
 */
import { FileByteSource } from '../src/lib/gguf/byte-source.js';
import { readGguf } from '../src/lib/gguf/reader.js';

const STRINGS = 400_000;
const words = Buffer.from(Array.from({ length: STRINGS }, (_, id) => `Ġword ${id}`).join(''));

function leastMs(work: () => void): number {
  const runs = Array.from({ length: 6 }, () => {
    const began = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1000;
  });
  return Math.min(...runs);
}

const yardstickMs = leastMs(() => {
  for (let id = 0; id < STRINGS; id++) words.toString('utf8', id * 8, id * 8 + 12);
});
console.log(`decoding ${STRINGS} strings: ${yardstickMs.toFixed(0)} ms`);
for (const path of process.argv.slice(2)) {
  const ms = leastMs(() => {
    const source = new FileByteSource(path);
    readGguf(source);
    source.close();
  });
  console.log(`${path}: ${ms.toFixed(0)} ms, ${(ms / yardstickMs).toFixed(1)} times that`);
}
